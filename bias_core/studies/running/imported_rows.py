"""A study on somebody's own pictures: its shots are matched to them by prompt, and nothing is drawn."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bias_core.engine.local import run_rows
from bias_core.engine.progress import EngineProgress
from bias_core.errors import InvalidInput
from bias_core.exchange.imports import ImportedImages, key
from bias_core.protocols import TextToImage
from bias_core.studies.kit.rows import thinned, treated
from bias_core.studies.kit.services import StudyServices
from bias_core.studies.kit.types import Shot
from bias_core.types import ImageRow

_EXAMPLES = 3


@dataclass(frozen=True, kw_only=True)
class ImportedRows:
    """Rows of imported pictures."""

    source: ImportedImages
    revision: str = ""  # each picture has its own
    check: Callable[[], None] = lambda: None
    template: str = ""
    has_seeds: bool = False

    @classmethod
    def build(cls, path: str, check: Callable[[], None] = lambda: None, template: str = "") -> "ImportedRows":
        """Look through a folder or zip; InvalidInput where it cannot be used.

        ``check`` is called while pictures are opened; what it raises ends that. With a ``template`` their
        prompts are those of the study put into it.
        """
        return cls(source=ImportedImages(Path(path)), check=check, template=template)

    def prompt_of(self, shot: Shot) -> str:
        """The prompt that the pictures of a shot have."""
        return treated(shot.prompt, self.template)

    def n_found(self, shots: Sequence[Shot]) -> int:
        """How many pictures these shots would take; none is opened."""
        return sum(min(shot.n, self.source.n_of(self.prompt_of(shot))) for shot in shots)

    def world(self, shots: Sequence[Shot], services: StudyServices) -> str:
        """That of the models that the pictures' own records name, where all agree and are known here."""
        records = {self.source.record(row.id) for shot in shots for row in self.of(shot)}
        worlds = {services.pictures_world(*record) if all(record) else "" for record in records}
        return worlds.pop() if len(worlds) == 1 else ""

    def of(self, shot: Shot) -> list[ImageRow]:
        """Rows of the first pictures of the shot's prompt; fewer, or none, where there are not as many."""
        self.check()
        return [replace(row, group=shot.group) for row in self.source.rows(self.prompt_of(shot), shot.n)]

    def shots(self, scale: float, seed: int) -> list[Shot]:
        """All pictures as they are, for a study that lays out none itself."""
        prompts = thinned(list(self.source.counts.items()), scale, least=2, seed=seed)
        return [Shot(prompt=prompt, n=n, group="imported") for prompt, n in prompts]

    def model(self, services: StudyServices) -> TextToImage:  # noqa: ARG002
        """The pictures themselves."""
        return self.source

    def draw(
        self, rows: Sequence[ImageRow], services: StudyServices, *, cancelled: Callable[[], bool]
    ) -> Iterator[EngineProgress]:
        """Copied by this process, whatever engine draws: other machines do not have these files."""
        return run_rows(rows, self.source, services.images, lock=services.model_lock, cancelled=cancelled)

    def notes(self, shots: Sequence[Shot]) -> list[str]:
        """What is missing, what is left over, and what could not be read."""
        wanted: dict[str, int] = {}
        for shot in shots:
            prompt = key(self.prompt_of(shot))
            wanted[prompt] = max(shot.n, wanted.get(prompt, 0))
        short = {shot.prompt: shot.n - len(self.of(shot)) for shot in shots}
        short = {prompt: n for prompt, n in short.items() if n > 0}
        spare = {p: n - wanted.get(key(p), 0) for p, n in self.source.counts.items()}
        spare = {prompt: n for prompt, n in spare.items() if n > 0}
        parts = (
            ("pictures of this study are missing", sum(short.values()), short),
            ("pictures are more than this study asks for", sum(spare.values()), spare),
            ("files could not be used", len(self.source.rejected), self.source.rejected),
        )
        return [f"{n:,} {what}: {_some(list(which))}." for what, n, which in parts if n]

    def refuse_none(self, shots: Sequence[Shot]) -> None:
        """Raise InvalidInput where no picture belongs to any of the shots."""
        if not any(self.of(shot) for shot in shots):
            asked, given = _some([self.prompt_of(shot) for shot in shots]), _some(list(self.source.counts))
            raise InvalidInput(
                f"no picture of {self.source.name} has a prompt of this study. It asks for: {asked}. The "
                f"pictures have: {given}"
            )


def _some(items: Sequence[str]) -> str:
    more = f" and {len(items) - _EXAMPLES:,} more" if len(items) > _EXAMPLES else ""
    return "; ".join(items[:_EXAMPLES]) + more
