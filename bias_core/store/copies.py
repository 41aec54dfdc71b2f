"""Copies in an import: pictures that are certainly another file of one picture, and pictures that only look alike."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import PurePosixPath

import numpy as np
from PIL import Image

from bias_core.store.drawing_facts import PictureMetadata
from bias_core.store.picture_metadata import finished_stem, is_sheet_name

_SIDE, _CELLS = 48, 16  # pixels of the thumbnail; cells per side, by which two pictures are compared
_FLAT = 2.0  # standard deviation of grey below which thumbnails say nothing
_SAVED_AGAIN_MOST, _SAVED_AGAIN_MEAN = 12.0, 2.0  # difference of the cells of one picture in two sizes or formats
_ALIKE_MEAN, _ALIKE_LIKENESS = 6.0, 0.95  # of two pictures that look alike, or a tile of a sheet
_SAME_SHAPE = 0.02  # relative difference of the proportions of one picture in two sizes


@dataclass(frozen=True, kw_only=True)
class PossibleCopy:
    """A picture that may be a copy of another one with the same prompt."""

    name: str
    content: str  # digest of the file
    pixels: str  # digest of its pixels
    own_id: str  # of the row in our own record; "" without one
    size: tuple[int, int]
    format: str
    is_blank: bool
    thumbnail: np.ndarray  # (48, 48, 3), whole numbers from 0 to 255
    way: str  # of drawing: its model and LoRAs; "" if it is not known
    drawing: PictureMetadata

    @cached_property
    def cells(self) -> np.ndarray:
        """Mean colour of each cell, ``(256, 3)``."""
        step = _SIDE // _CELLS
        blocks = self.thumbnail.reshape(_CELLS, step, _CELLS, step, 3)
        return blocks.mean(axis=(1, 3)).reshape(-1, 3)  # type: ignore[no-any-return]

    @property
    def is_flat(self) -> bool:
        """Return true if it has too little contrast to be compared."""
        return bool(self.cells.mean(axis=1).std() <= _FLAT)

    def contradicts(self, other: "PossibleCopy") -> bool:
        """Return true if both have a known seed or way of drawing, and these differ."""
        pairs = ((self.drawing.seed, other.drawing.seed), (self.way, other.way))
        return any(first not in (None, "") and second not in (None, "") and first != second for first, second in pairs)

    @property
    def shape(self) -> float:
        """Width over height."""
        return self.size[0] / self.size[1]


def get_thumbnail(image: Image.Image) -> np.ndarray:
    """Return the thumbnail by which pictures are compared, ``(48, 48, 3)``."""
    return np.asarray(image.convert("RGB").resize((_SIDE, _SIDE), Image.Resampling.BILINEAR))


CopiesWithReasons = Iterator[tuple[PossibleCopy, str]]


def find_copies(pictures: Sequence[PossibleCopy]) -> tuple[dict[str, str], list[str]]:
    """Return the pictures of one prompt that certainly show another one again, with reasons; and those that look alike.

    A copy has the same content, or the same pixels after scaling, up to what saving it again changes, and no other
    seed, model or LoRA. Drafts and contact sheets are known by their program's names or record, or show other pictures.
    Pictures that only look alike, or repeat a seed and its settings, are no copies.
    """
    alike = [*_pairs_alike(pictures)]
    reasons: dict[str, str] = {}
    for find in (
        _find_drafts_and_sheets,
        _find_same_files,
        _find_same_pixels,
        lambda remaining: _find_saved_again(remaining, alike),
        _find_tiled_sheets,
    ):
        for picture, reason in find([picture for picture in pictures if picture.name not in reasons]):
            reasons.setdefault(picture.name, reason)
    groups = _groups(pictures, [*map(_get_settings, pictures)])
    counting = [[picture.name for picture in group if picture.name not in reasons] for group in (pictures, *groups)]
    repeated = {name for names in counting[1:] for name in names[1:]}
    repeated |= {
        second.name for first, second, _ in alike if not first.contradicts(second) and first.name not in reasons
    }
    return reasons, [name for name in counting[0] if name in repeated]


def _get_settings(picture: PossibleCopy) -> Hashable:
    """Return the known settings that decide the pixels, of a picture in its size; None without a seed."""
    facts = picture.drawing
    if facts.seed is None or picture.own_id:
        return None
    return (facts.seed, facts.negative_prompt, facts.num_inference_steps, facts.guidance_scale, facts.sampler,
            picture.way, facts.workflow)  # fmt: skip


def _groups(pictures: Sequence[PossibleCopy], keys: Sequence[Hashable]) -> list[list[PossibleCopy]]:
    groups = defaultdict[Hashable, list[PossibleCopy]](list)
    for picture, key in zip(pictures, keys, strict=True):
        if key is not None:
            groups[key].append(picture)
    return [group for group in groups.values() if len(group) > 1]


def _find_drafts_and_sheets(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    stems = {PurePosixPath(picture.name).with_suffix("").as_posix(): picture.name for picture in pictures}
    for picture in pictures:
        if finished := stems.get(finished_stem(picture.name)):
            yield picture, f"a draft of {finished}"
        elif picture.drawing.is_sheet or is_sheet_name(picture.name):
            yield picture, "a contact sheet"


def _find_same_files(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    """Find identical files; blank pictures without a seed may each have been drawn."""
    files = [None if picture.is_blank and picture.drawing.seed is None else picture.content for picture in pictures]
    for group in _groups(pictures, files) + _groups(pictures, [picture.own_id or None for picture in pictures]):
        yield from ((picture, f"the same picture as {group[0].name}") for picture in group[1:])


def _find_same_pixels(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    comparable = _comparable(pictures)
    for group in _groups(comparable, [picture.pixels for picture in comparable]):
        for place, picture in enumerate(group):
            if same := next((first for first in group[:place] if not picture.contradicts(first)), None):
                yield picture, f"the same pixels as {same.name}"


def _comparable(pictures: Sequence[PossibleCopy]) -> list[PossibleCopy]:
    return [picture for picture in pictures if not picture.is_blank and not picture.own_id]


Pairs = Sequence[tuple[PossibleCopy, PossibleCopy, np.ndarray]]
"""Pairs of pictures in their order, with the differences of their cells."""


def _find_saved_again(pictures: Sequence[PossibleCopy], alike: Pairs) -> CopiesWithReasons:
    """Find pictures in two sizes or formats; the largest counts, then the first."""
    names = {picture.name for picture in pictures}
    for first, second, difference in alike:
        is_saved_again = first.size != second.size or first.format != second.format
        is_within_noise = difference.max() <= _SAVED_AGAIN_MOST and difference.mean() <= _SAVED_AGAIN_MEAN
        if is_saved_again and is_within_noise and not first.contradicts(second) and {first.name, second.name} <= names:
            kept, copy = (second, first) if prod(second.size) > prod(first.size) else (first, second)
            yield copy, f"the same picture as {kept.name}, in another size or format"


def _pairs_alike(pictures: Sequence[PossibleCopy]) -> Iterator[tuple[PossibleCopy, PossibleCopy, np.ndarray]]:
    """Yield pairs that look alike, in their order, with the differences of their cells."""
    order = {picture.name: place for place, picture in enumerate(pictures)}
    comparable = [picture for picture in _comparable(pictures) if not picture.is_flat]
    comparable.sort(key=lambda picture: float(picture.cells.mean()))
    if len(comparable) < 2:
        return
    cells = np.array([picture.cells for picture in comparable])
    means = cells.mean(axis=(1, 2))
    for place, picture in enumerate(comparable):
        end = int(np.searchsorted(means, means[place] + _ALIKE_MEAN, side="right"))
        differences = np.abs(cells[place + 1 : end] - cells[place])
        for offset in np.flatnonzero(differences.mean(axis=(1, 2)) <= _ALIKE_MEAN):
            other = comparable[place + 1 + offset]
            likeness = np.corrcoef(cells[place].ravel(), cells[place + 1 + offset].ravel())[0, 1]
            if likeness >= _ALIKE_LIKENESS and abs(picture.shape / other.shape - 1) <= _SAME_SHAPE:
                first, second = sorted((picture, other), key=lambda each: order[each.name])
                yield first, second, differences[offset]


_LAYOUTS = [(columns, rows) for columns in range(1, 5) for rows in range(1, 5) if columns * rows > 1]
_MOST_SHEETS = 300  # pictures of one prompt that are searched for sheets


def _find_tiled_sheets(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    """Find sheets that show at least two of the other pictures."""
    comparable = [picture for picture in _comparable(pictures) if not picture.is_flat]
    if len(comparable) < 3 or len(comparable) > _MOST_SHEETS:
        return
    shapes = np.array([picture.shape for picture in comparable])
    for columns, rows in _LAYOUTS:
        box = _SIDE // columns, _SIDE // rows
        small = np.array([_resize(Image.fromarray(picture.thumbnail), box) for picture in comparable])
        for place, sheet in enumerate(comparable):
            others = np.flatnonzero(np.abs(shapes / (sheet.shape * rows / columns) - 1) <= _SAME_SHAPE)
            others = others[others != place]
            if len(others) > 1 and _count_shown(sheet, small[others], columns, rows) > 1:
                yield sheet, "a contact sheet of other pictures"


def _count_shown(sheet: PossibleCopy, small: np.ndarray, columns: int, rows: int) -> int:
    """Count the pictures ``small (n, values)`` that are tiles of a sheet."""
    whole, tiles = Image.fromarray(sheet.thumbnail), set[int]()
    for row in range(rows):
        for column in range(columns):
            width, height = _SIDE / columns, _SIDE / rows
            part = (column * width, row * height, (column + 1) * width, (row + 1) * height)
            tile = _resize(whole, (_SIDE // columns, _SIDE // rows), part)
            difference = np.abs(small - tile).mean(axis=1)
            nearest = int(difference.argmin())
            if difference[nearest] <= _ALIKE_MEAN and tile.std() > _FLAT:
                likeness = np.corrcoef(small[nearest], tile)[0, 1]
                tiles |= {nearest} if likeness >= _ALIKE_LIKENESS else set()
    return len(tiles)


def _resize(
    image: Image.Image, size: tuple[int, int], part: tuple[float, float, float, float] | None = None
) -> np.ndarray:
    return np.asarray(image.resize(size, Image.Resampling.BOX, box=part), dtype=float).ravel()
