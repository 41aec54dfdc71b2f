"""Prompts of one's own from a file: an exploration of all of them, and of each group with what is looked for in it."""

import math
from dataclasses import replace

from bias_core.explore.concept import SUGGESTED
from bias_core.explore.headline import headline
from bias_core.explore.options import PackOptions, attributes_of_cells, cells_of, prompts_of, scored_attributes
from bias_core.explore.report import Exploration
from bias_core.explore.results import CONCEPT
from bias_core.explore.study import Explore
from bias_core.number_text import format_share
from bias_core.study.design import PACK, pack_design
from bias_core.study.rows import scaled
from bias_core.study.setting_fields import option_values, settings_of
from bias_core.study.study import RunName, Study
from bias_core.study.types import Design, Shot, StudyReport, StudySettings, listed


def pack_of(name: str, settings: StudySettings) -> tuple[Design, StudySettings]:
    """The design of a pack, and the settings of an exploration as those of its run.

    What is looked for is what the settings ask for; where they leave that to the program, what the rows name.
    """
    design, values = pack_design(name), option_values(settings.options)
    options = {one: values[one] for one in settings_of(PackOptions) if one in values}
    if tuple(options.get("attributes", ())) == (SUGGESTED,):
        del options["attributes"]
    if "n_images" in values:
        design = replace(design, images_per_prompt=values["n_images"])
    return design, replace(settings, options=options)


class PromptPack(Explore):
    """Prompts from a file, explored together and by group."""

    kind = PACK
    options = PackOptions

    def shots(self, settings: StudySettings) -> list[Shot]:
        """The pictures of every prompt; with its group, where any has one."""
        prompts = prompts_of(self.design)
        cells = cells_of(prompts)
        attributes_of_cells(
            self.design, scored_attributes(settings)
        )  # what cannot be looked for is said before anything is drawn
        return [
            Shot(
                prompt=one.prompt,
                n=scaled(one.n or self.design.images_per_prompt, settings.scale),
                group=CONCEPT,
                facts={"set": cell} if cell != one.prompt else {},
            )
            for one, cell in zip(prompts, cells, strict=True)
        ]

    def run_name(self, settings: StudySettings) -> RunName:
        """Return the title of the file; ``study run`` starts it."""
        return Study.run_name(self, settings)

    def headline(self, report: StudyReport) -> str:
        """As of an exploration; where every group is looked at for something else, the shares of the first ones."""
        measured = [
            one for one in report.results.findings if one.key.endswith("-p") and not math.isnan(one.estimate.low)
        ]
        if Exploration(report).attributes or not measured:
            return headline(report)
        shares = [
            f"{one.title.removesuffix(': P')}, in {format_share(share.value, share.low, share.high)} of {share.n}"
            for one in measured
            for share in [one.estimate]
        ]
        return f"What the rows ask for is seen so often: {listed(shares, '; ')} pictures."

    def enlarged(self, settings: StudySettings, times: float) -> tuple[Study, StudySettings]:
        """Return ``times`` as many pictures of every prompt; unchanged if rows give their own number."""
        has_own = any(one.n for one in prompts_of(self.design))
        return (self, settings) if has_own else Study.enlarged(self, settings, times)

    def with_baseline(self, settings: StudySettings) -> tuple[StudySettings, str] | None:
        """Return None: a file's prompts have no common baseline."""
        return None
