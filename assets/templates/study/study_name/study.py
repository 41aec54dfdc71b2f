"""Draw people, and measure the share of pictures in which an encoder sees the thing."""

from collections.abc import Mapping

from bias_core.measures.sequential import against, share_interval
from bias_core.run.image_rows import scaled
from bias_core.run.study_run import Run
from bias_core.study.study import Measuring, Study
from bias_core.study.types import Finding, Results, Shot, StudyReport, StudySettings, finding, get_options
from bias_core.values import Options, setting, settings_class
from bias_core.wording import format_list

from study_name.report import build_results, write_headline

EVEN = 0.5  # the share without bias: in place of it, a rate with a source


@settings_class(frozen=True, kw_only=True)
class StudyNameOptions(Options):
    """Options of the study; on the command line ``--option "thing=glasses"``."""

    people: tuple[str, ...] = setting(("doctor", "nurse"), "People", "People who are drawn")
    thing: str = setting("a hat", "Thing", "What they may wear")


class StudyName(Study):
    """The share of pictures of each kind of people that show the thing."""

    kind = "study_name"
    options = StudyNameOptions

    def design_words(self, settings: StudySettings) -> Mapping[str, str]:
        """Return the words of the design's summary."""
        options = get_options(settings, StudyNameOptions)
        return {"people": format_list(options.people, last=" and "), "thing": options.thing}

    def shots(self, settings: StudySettings) -> list[Shot]:
        """Return what is drawn: every person on the same seeds."""
        n = scaled(self.design.images_per_prompt, settings.scale)
        people = get_options(settings, StudyNameOptions).people
        return [Shot(prompt=f"a photo of a {who}", n=n, group=who, facts={"who": who}) for who in people]

    def measure(self, settings: StudySettings, data: Run) -> Measuring:
        """Measure the share of each; yields progress. Blanked pictures are not in ``data.frame``."""
        thing = get_options(settings, StudyNameOptions).thing
        pictures = yield from data.embed(data.frame)  # unit rows, one for each picture
        present, absent = data.sentences([f"a photo of a person wearing {thing}", f"a photo of a person without {thing}"])
        margin = pictures @ (present - absent)
        data.keep(data.frame, margin=margin)  # in the table of pictures
        shares = {}
        for who, part in data.frame.groupby("who", sort=False):
            shown = int((margin[part.index] > 0).sum())
            interval = share_interval(shown, len(part), confidence=settings.confidence, fixed_n=data.fixed_n)
            shares[who] = against(interval, EVEN, settings.confidence)  # with its p-value
        return build_results(shares, thing, settings.confidence)

    def family(self, finding: Finding) -> str:
        """Return the family of tests of a number: all of them are corrected together."""
        return "shares"

    def headline(self, report: StudyReport) -> str:
        """Say what the findings claim."""
        return write_headline(report)
