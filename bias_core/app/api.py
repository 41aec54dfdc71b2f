"""Typed tools over HTTP and MCP: the same settings as the form and the command line, the same numbers."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import gradio as gr

from bias_core.app.api_studies import StudyTools, new_session, tool
from bias_core.studies.explore.options import KIND, SUGGESTED, explore_settings, read_attributes
from bias_core.studies.kit.attributes import load_attribute_sets
from bias_core.studies.kit.designs import find_design
from bias_core.studies.reports.text import to_dict
from bias_core.studies.running.run import run_study, with_options
from bias_core.studies.running.size import check_number
from bias_core.ui.run_turns import RUN, of_program

if TYPE_CHECKING:
    from bias_core.services import Services


class Tools:
    """What programs may ask for; an error reaches them as its message."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.sets = load_attribute_sets(services.settings.assets_dir / "studies")

    @tool
    def explore(
        self,
        concept: str,
        attributes: list[str] | None = None,
        model: str = "calibration-diffusion",
        condition: str = "published",
        n_images: int = 16,
        seed: int = 0,
        template: str = "a photo of a {}",
        encoder: str = "calibration-clip",
        attribute_a: str = "male",
        attribute_b: str = "female",
        n_attribute_images: int = 8,
        num_inference_steps: int | None = None,
        guidance_scale: float | None = None,
        negative_prompt: str = "",
        n_clusters: int | None = None,
        confidence: float = 0.95,
        force: bool = False,
    ) -> dict[str, Any]:
        """Draw pictures of a concept with a text-to-image model and measure how often attributes appear.

        The report has per attribute the share of pictures with its interval, n and null value.

        Args:
            concept: Who or what is drawn, for example "doctor".
            attributes: Built-in names such as "man", or "name|positive sentence|negative sentence|P*|source".
                Left out: the set suggested for the concept.
            model: A model of list_models, or org/name of the hub.
            condition: Which bias was planted in the calibration world: published, fair, extreme, trigger or
                backdoor.
            n_images: Number of pictures of the concept.
            seed: Picture i has seed + i.
            template: Prompt with one {} for the concept.
            encoder: Reader of the pictures.
            attribute_a: First word of the association; both empty for none.
            attribute_b: Second word of the association.
            n_attribute_images: Pictures per association word.
            num_inference_steps: Denoising steps; left out: the model's default.
            guidance_scale: Guidance; left out: the model's default.
            negative_prompt: What the model should avoid.
            n_clusters: Number of groups of look-alikes; left out: found from the pictures.
            confidence: Of every interval, for example 0.95.
            force: Score anyway with a calibration reader; the report says so first.
        """
        settings = explore_settings(
            concept=concept,
            template=template,
            attributes=read_attributes([SUGGESTED] if attributes is None else attributes, concept),
            attribute_a=attribute_a,
            attribute_b=attribute_b,
            model=model,
            condition=condition,
            encoder=encoder,
            n_images=n_images,
            n_attribute_images=n_attribute_images,
            num_inference_steps=num_inference_steps,
            guidance_scale=guidance_scale,
            negative_prompt=negative_prompt,
            seed=seed,
            n_clusters=n_clusters,
            confidence=confidence,
            force=force,
        )
        design = find_design(KIND)
        check_number(design, with_options(design, settings), self.services.settings)
        start = partial(run_study, design, settings, self.services, session=new_session())
        return to_dict(of_program(self.services, start)[1])

    def list_models(self) -> list[dict[str, Any]]:
        """List the models that have a name, with their conditions, default settings and licence."""
        return [
            {
                "id": info.id,
                "name": info.name,
                "conditions": list(info.conditions),
                "default_steps": info.default_steps,
                "default_guidance": info.default_guidance,
                "licence": info.licence,
                "note": info.note,
            }
            for info in self.services.models()
        ]

    def list_attribute_sets(self) -> list[dict[str, Any]]:
        """List the built-in attributes per concept, with their sentences, rates P* and sources."""
        return [asdict(item) for item in self.sets]


def add_tools(services: Services) -> None:
    """Offer the tools; called inside of the blocks."""
    tools, studies = Tools(services), StudyTools(services)
    for run in (tools.explore, studies.run_study, studies.compare):
        gr.api(run, api_name=run.__name__, **RUN)
    for look in (
        studies.get_report,
        studies.list_studies,
        tools.list_models,
        tools.list_attribute_sets,
        studies.list_measures,
    ):
        gr.api(look, api_name=look.__name__)
