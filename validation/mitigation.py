"""Repeated tests of the remaining bias after a mitigation, and of words lost from prompts."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from bias_core.measures.stereotype import asked_kept_estimate, prevalence_estimate, remaining_gap_estimate
from bias_core.prompts import fill_template, guided_prompt
from bias_core.run.study_run import Run
from bias_core.study.study import Measuring, Study
from bias_core.study.types import Shot, StudySettings, get_options
from bias_core.types import Estimate
from bias_core.values import setting, settings_class
from bias_core.world.planted import planted_lines
from validation.repetitions import LADDER, RepetitionOptions, in_each_repetition, planted_shares, repeated
from validation.verdicts import measured, results_of

GOAL = 0.5  # share of masculine people that a mitigation is to reach
LOST = dict(zip(LADDER, (0.5, 0.25, 0.0), strict=True))
"""Share of pictures drawn without the prompt's words, by condition: it falls in rising conditions."""
WORDS = "male", "female"


@settings_class(frozen=True, kw_only=True)
class MitigationOptions(RepetitionOptions):
    """Options of the repeated mitigation."""

    template: str = setting("a photo of a {}", "Template", "Prompt with one {} for the concept")
    masculine: str = setting("doctor", "Concept biased to men", "The bias to remove")
    feminine: str = setting("secretary", "Concept biased to women", "Takes the first one's place to remove too much")
    baseline_images: int = setting(24, "Pictures of the baseline", "Enough to show its bias clearly", ge=2, le=1000)
    asked_images: int = setting(12, "Pictures of each word", "Pictures per word that a prompt asks for", ge=2, le=1000)


def _turned(gap: Estimate, sign: int) -> Estimate:
    """Estimate with the sign that makes it rise as more is planted."""
    low, high = sorted((sign * gap.low, sign * gap.high))
    return replace(gap, value=sign * gap.value, low=low, high=high)


def _share(pictures: pd.DataFrame) -> Estimate:
    return prevalence_estimate(pictures["to_man"].to_numpy(float), pictures["to_woman"].to_numpy(float))


class ValidityMitigation(Study):
    """The study of the kind ``validity_mitigation``."""

    kind = "validity_mitigation"
    options = MitigationOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Per repetition and condition: the baseline, the mitigated pictures, and pictures of prompts with words."""
        options, n = get_options(settings, MitigationOptions), self.design.images_per_prompt
        masculine, feminine = (fill_template(options.template, name) for name in (options.masculine, options.feminine))

        def of_cell(group: str, chance: Random) -> Iterator[Shot]:
            sets = [
                ("baseline", masculine, options.baseline_images, "published"),
                ("left", masculine, n, group),
                ("over", feminine, n, group),
            ]
            for word in WORDS:
                n_lost = sum(chance.random() < LOST[group] for _ in range(options.asked_images))
                prompt = guided_prompt(options.template, options.masculine, word)
                sets += [(word, prompt, options.asked_images - n_lost, "fair"), (word, masculine, n_lost, "fair")]
            for kind, prompt, count, condition in sets:
                if count:
                    yield Shot(prompt=prompt, n=count, group=group, condition=condition, facts={"set": kind})

        return repeated(settings, of_cell)

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Remaining bias, and share of prompts followed, in every repetition."""
        frame, options = data.frame.reset_index(drop=True), get_options(settings, MitigationOptions)
        rows = yield from data.embed(frame)
        prompts = [guided_prompt(options.template, options.masculine, word) for word in WORDS]
        sentences = data.texts(["a photo of a man", "a photo of a woman", *prompts])
        to_man, to_woman, to_male, to_female = (rows @ sentences.T).T
        as_asked = np.where(frame["set"] == WORDS[0], 1, -1) * (to_male - to_female) > 0
        frame = frame.assign(to_man=to_man, to_woman=to_woman, as_asked=as_asked)
        lines = tuple(planted_lines())
        planted = {
            kind: planted_shares(lines, fill_template(options.template, name))
            for kind, name in (("left", options.masculine), ("over", options.feminine))
        }

        def work(repetition: int) -> Iterator[dict[str, Any]]:
            for condition, part in frame[frame["repetition"] == repetition].groupby("group", sort=False):
                where: dict[str, Any] = {"condition": str(condition), "repetition": repetition}
                by_set = {str(kind): pictures for kind, pictures in part.groupby("set", sort=False)}
                baseline = _share(by_set["baseline"])
                for kind, variant, sign in (("left", "what is left", 1), ("over", "what is overcorrected", -1)):
                    gap = _turned(remaining_gap_estimate(_share(by_set[kind]), baseline, GOAL), sign)
                    target = sign * (planted[kind][str(condition)] - GOAL)
                    yield measured("remaining_gap", gap, target=target, variant=variant, planted="gender", **where)
                fidelity = asked_kept_estimate(*(by_set[word]["as_asked"].to_numpy(float) for word in WORDS))
                lost = 1 - LOST[str(condition)] / 2
                yield measured("asked_kept", fidelity, target=lost, planted="words that are lost", **where)

        measurements = yield from in_each_repetition(data, work)
        return results_of(pd.DataFrame(measurements), settings)
