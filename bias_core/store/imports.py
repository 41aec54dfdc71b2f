"""Imported pictures with their prompts, from a folder or zip in common layouts; a reader opens them."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from bias_core.errors import InvalidInput, quoted
from bias_core.protocols import StepCallback
from bias_core.store import found_pictures
from bias_core.store.found_pictures import (
    AUTO,
    COPIES,
    COUNT_ONCE,
    ImportedPicture,
    PictureLook,
    Source,
    get_key,
    read_prompts_from,
)
from bias_core.store.images import LONGEST_SIDE
from bias_core.store.reader import Check, ReaderEnded, Session, TooMuch, read_apart
from bias_core.types import BLOCK_REASON, GeneratedImage, ImageRow


class ImportedImages:
    """Pictures of a folder or zip by prompt; they act as a text-to-image model that draws nothing.

    How they are read, and where their prompts come from, says :class:`bias_core.store.found_pictures.FoundPictures`.
    A file at which the reader ends is left out, and the others are read by another reader.

    Parameters
    ----------
    path : folder or zip.
    prompts_from : "auto", "none", a key of ``found_pictures.PROMPT_SOURCES``, or "one for all: " and a prompt.
    copies : "count once", or "count all".
    drawn_with : take only the pictures that were drawn in this way (:attr:`PictureLook.ways`); "" for all.
    assumed_prompt : of all pictures if none of them has one; "" to leave them without.

    Attributes
    ----------
    name : of the folder or zip.
    counts : number of files per prompt, in file order; after :meth:`examine` number of pictures.
    is_assumed : True if all pictures have the assumed prompt.
    names : of all files that look like pictures, also of those that do not count.

    Raises InvalidInput: there is no such folder or zip, it has no picture, a table contradicts itself, or a name leads
    out of it.
    """

    batch_size = 32

    def __init__(
        self, path: Path, *, prompts_from: str = AUTO, copies: str = COUNT_ONCE, drawn_with: str = "",
        assumed_prompt: str = "",
    ) -> None:  # fmt: skip
        if copies not in COPIES:
            raise InvalidInput(f"copies are {' or '.join(map(repr, COPIES))}; got {quoted(copies)}")
        try:
            absolute = path.expanduser().absolute()
        except RuntimeError as error:  # no such user
            raise InvalidInput(f"{str(path)[:200]!r} cannot be opened: {error}") from error
        # Each import has a name of its own, for its files may have changed since the one before.
        self._source = Source(
            import_id=secrets.token_hex(8), path=absolute, prompts_from=read_prompts_from(prompts_from), copies=copies,
            drawn_with=drawn_with, assumed_prompt=assumed_prompt,
        )  # fmt: skip
        self._session = Session()
        self.name, self.counts, self.is_assumed, self.names = self._ask(found_pictures.describe)
        self._pictures: dict[str, list[ImportedPicture]] = {}  # that count, by key of their prompt
        self._by_id: dict[str, ImportedPicture] = {}

    def _ask(self, function: Callable[..., Any], *arguments: Any, check: Check = lambda _: None) -> Any:
        """Ask a reader; another one if it ends at a file, which is then left out."""
        while True:
            try:
                return read_apart(function, self._source, *arguments, check=check, session=self._session)
            except TooMuch as error:
                broken = error.broken if isinstance(error, ReaderEnded) else {}
                if not broken.items() - dict(self._source.broken).items():
                    raise InvalidInput(f"{self._source.path.name[:200]} {error}") from error
                self._source = replace(self._source, broken=(*self._source.broken, *broken.items()))

    @property
    def drawn_with(self) -> str:
        """The only way of drawing whose pictures are taken; "" for all."""
        return self._source.drawn_with

    def examine(self, check: Callable[[], None] = lambda: None) -> None:
        """Read every picture, calling ``check`` before each; only usable ones count. InvalidInput if none is."""
        self._read([get_key(prompt) for prompt in self.counts], check)
        n_usable = {prompt: len(self._pictures[get_key(prompt)]) for prompt in self.counts}
        self.counts = {prompt: n for prompt, n in n_usable.items() if n}
        if not self.counts:
            reasons = [f"{name}: {reason}" for name, reason in self.left_out.items()]
            reasons = [*dict.fromkeys(self.left_out.values())] if self.drawn_with else reasons
            used = f"was drawn with {self.drawn_with}" if self.drawn_with else "can be used"
            raise InvalidInput(f"no picture of {self.name} {used}: {'; '.join(reasons[:3])}")

    def look(self, check: Check = lambda _: None) -> PictureLook:
        """Read every picture, and return what was understood; no picture of the result may count."""
        return self._ask(found_pictures.look, check=check)  # type: ignore[no-any-return]

    def _read(self, prompt_keys: Sequence[str], check: Callable[[], None] = lambda: None) -> None:
        if unread := [prompt_key for prompt_key in prompt_keys if prompt_key not in self._pictures]:
            self._pictures |= self._ask(found_pictures.examine, unread, check=lambda _: check())
            self._by_id = {picture.row.id: picture for pictures in self._pictures.values() for picture in pictures}

    @property
    def left_out(self) -> Mapping[str, str]:
        """Reasons for left-out pictures, by file."""
        return self._ask(found_pictures.get_remarks, [*self._pictures])[0]  # type: ignore[no-any-return]

    def remarks(self) -> Sequence[tuple[str, Sequence[str]]]:
        """Return sentences about pictures that do not count as they are, each with the pictures."""
        return self._ask(found_pictures.get_remarks, [*self._pictures])[1]  # type: ignore[no-any-return]

    @property
    def path(self) -> Path:
        return self._source.path

    def rows(self, prompt: str, n: int) -> list[ImageRow]:
        """Rows of the first ``n`` usable pictures of a prompt, or fewer."""
        self._read([get_key(prompt)])
        return [picture.row for picture in self._pictures[get_key(prompt)][:n]]

    def count_files(self, prompt: str) -> int:
        """Number of files of a prompt, usable or not before :meth:`examine`."""
        return sum(n for counted_prompt, n in self.counts.items() if get_key(counted_prompt) == get_key(prompt))

    def get_picture(self, image_id: str) -> ImportedPicture:
        """Return what is known of a picture of :meth:`rows`; InvalidInput if there is no such picture."""
        if image_id not in self._by_id:
            raise InvalidInput(f"{self.name} has no picture {image_id}")
        return self._by_id[image_id]

    def decode(self, name: str, longest: int = LONGEST_SIDE) -> Image.Image:
        """Return a picture by the name of its file, with its longer side at most ``longest``."""
        source, session = replace(self._source, broken=()), Session(self._session.reader)
        size, pixels = read_apart(found_pictures.decode_small, source, name, longest, session=session)
        return Image.frombytes("RGB", size, pixels)

    def generate(self, rows: Sequence[ImageRow], *, on_step: StepCallback | None = None) -> Iterator[GeneratedImage]:
        for done, row in enumerate(rows, start=1):
            picture = self.get_picture(row.id)
            drawn = picture.drawing.record()
            if picture.block_reason:
                drawn[BLOCK_REASON] = picture.block_reason
            image, blocked = self.decode(picture.name), bool(picture.block_reason)
            yield GeneratedImage(row=row, image=image, blocked=blocked, drawn=drawn or None)
            if on_step is not None:
                on_step(done, len(rows))


def with_table(path: Path, target: Path, table: Path, check: Check = lambda _: None) -> None:
    """Write a copy of a zip in which a table's pictures have its prompts; what its own tables say besides them stays.

    Raises InvalidInput: the zip or table cannot be read, or the table names no picture of it.
    """
    files = [str(file.absolute()) for file in (path, target, table)]
    try:
        read_apart(found_pictures.write_with_table, *files, check=check)
    except TooMuch as error:
        raise InvalidInput(f"{path.name} or {table.name} {error}") from error
