"""Copies in an import: drafts of finished pictures, duplicates, contact sheets."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
from PIL import Image

from bias_core.store.drawing_facts import PictureMetadata
from bias_core.store.picture_metadata import finished_stem, is_sheet_name

_SIDE, _CELLS = 48, 16  # pixels of the grey thumbnail; cells per side, by which two pictures are compared
_FLAT = 2.0  # standard deviation of grey below which thumbnails say nothing
_SAME_CELL, _SAME_MEAN = 8.0, 2.0  # greatest and mean difference of the cells of one picture in two sizes or formats
_REDRAWN_MEAN, _REDRAWN_LIKENESS = 6.0, 0.95  # of a picture with a redrawn part, or a tile of a sheet
_STAGE_LIKENESS = 0.6  # of a picture and its larger version by a later pass of the same run
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
    grey: np.ndarray  # (48, 48), whole numbers from 0 to 255
    drawing: PictureMetadata

    @property
    def settings(self) -> Hashable:
        """All known settings that decide its pixels; None without a seed."""
        facts = self.drawing
        if facts.seed is None or self.own_id:
            return None
        return (facts.seed, facts.prompt, facts.negative_prompt, facts.num_inference_steps, facts.guidance_scale,
                facts.sampler, facts.model, facts.width, facts.height)  # fmt: skip

    @property
    def n_pixels(self) -> int:
        """Width times height."""
        return self.size[0] * self.size[1]

    @property
    def cells(self) -> np.ndarray:
        """Mean grey of each cell, ``(256,)``."""
        step = _SIDE // _CELLS
        return self.grey.reshape(_CELLS, step, _CELLS, step).mean(axis=(1, 3)).ravel()  # type: ignore[no-any-return]

    def likeness(self, other: "PossibleCopy") -> float:
        """Correlation of the cells of both pictures, in [-1, 1]; 0 if one is flat."""
        if min(self.cells.std(), other.cells.std()) <= _FLAT:
            return 0.0
        return float(np.corrcoef(self.cells, other.cells)[0, 1])

    def has_shape_of(self, other: "PossibleCopy") -> bool:
        """Return true if both have the same proportions."""
        own, theirs = (size[0] / size[1] for size in (self.size, other.size))
        return abs(own / theirs - 1) <= _SAME_SHAPE


def grey_of(image: Image.Image) -> np.ndarray:
    """Make the thumbnail by which pictures are compared."""
    return np.asarray(image.convert("L").resize((_SIDE, _SIDE), Image.Resampling.BOX))


def copies_among(pictures: Sequence[PossibleCopy]) -> dict[str, str]:
    """Return the names of pictures of one prompt that do not count, with reasons."""
    reasons: dict[str, str] = {}
    for find in (
        _drafts_and_sheets,
        _same_files,
        _smaller_versions,
        _earlier_stages,
        _same_pixels,
        _look_alikes,
        _tiled,
    ):
        for picture, why in find([picture for picture in pictures if picture.name not in reasons]):
            reasons.setdefault(picture.name, why)
    return reasons


CopiesWithReasons = Iterator[tuple[PossibleCopy, str]]


def _groups(pictures: Sequence[PossibleCopy], keys: Sequence[Hashable]) -> list[list[PossibleCopy]]:
    groups: dict[Hashable, list[PossibleCopy]] = defaultdict(list)
    for picture, key in zip(pictures, keys, strict=True):
        if key is not None:
            groups[key].append(picture)
    return [group for group in groups.values() if len(group) > 1]


def _drafts_and_sheets(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    stems = {PurePosixPath(picture.name).with_suffix("").as_posix(): picture.name for picture in pictures}
    for picture in pictures:
        if finished := stems.get(finished_stem(picture.name)):
            yield picture, f"a draft of {finished}"
        elif picture.drawing.is_sheet or is_sheet_name(picture.name):
            yield picture, "a contact sheet"


def _same_files(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    """Find identical files; blank pictures without a seed may each have been drawn."""
    files = [None if picture.is_blank and picture.drawing.seed is None else picture.content for picture in pictures]
    for group in _groups(pictures, files) + _groups(pictures, [picture.own_id or None for picture in pictures]):
        yield from ((picture, f"the same picture as {group[0].name}") for picture in group[1:])


def _smaller_versions(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    """Find pictures that a program saved before it enlarged them: both files have the same settings."""
    for group in _groups(pictures, [picture.settings for picture in pictures]):
        largest = max(group, key=lambda picture: picture.n_pixels)
        for picture in group:
            if picture.n_pixels < largest.n_pixels and picture.has_shape_of(largest):
                yield picture, f"a smaller version of {largest.name}"


def _earlier_stages(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    """Find pictures that a graph saved before a second pass, which has other settings."""
    for group in _groups(pictures, [picture.drawing.workflow or None for picture in pictures]):
        for picture in group:
            larger = (other for other in group if other.n_pixels > picture.n_pixels and picture.has_shape_of(other))
            if later := next((other for other in larger if picture.likeness(other) >= _STAGE_LIKENESS), None):
                yield picture, f"an earlier stage of {later.name}"


def _comparable(pictures: Sequence[PossibleCopy]) -> list[PossibleCopy]:
    return [picture for picture in pictures if not picture.is_blank and not picture.own_id]


def _of_other_seeds(picture: PossibleCopy, other: PossibleCopy) -> bool:
    seeds = (picture.drawing.seed, other.drawing.seed)
    return None not in seeds and seeds[0] != seeds[1]


def _same_pixels(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    own = _comparable(pictures)
    for group in _groups(own, [picture.pixels for picture in own]):
        for place, picture in enumerate(group):
            if same := next((other for other in group[:place] if not _of_other_seeds(picture, other)), None):
                yield picture, f"the same pixels as {same.name}"


def _look_alikes(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    """Find pictures in two sizes or formats, or with a redrawn part; the largest counts, then the first."""
    own = sorted(
        (picture for picture in _comparable(pictures) if picture.cells.std() > _FLAT),
        key=lambda picture: picture.cells.mean(),
    )
    if len(own) < 2:
        return
    order = {picture.name: place for place, picture in enumerate(pictures)}
    cells = np.array([picture.cells for picture in own])
    means = cells.mean(axis=1)
    for place, picture in enumerate(own):
        end = int(np.searchsorted(means, means[place] + _REDRAWN_MEAN, side="right"))
        apart = np.abs(cells[place + 1 : end] - cells[place])
        for offset in np.flatnonzero(apart.mean(axis=1) <= _REDRAWN_MEAN):
            other = own[place + 1 + offset]
            if _are_versions(picture, other, apart[offset]):
                fewer, more = sorted((picture, other), key=lambda each: (each.n_pixels, -order[each.name]))
                yield fewer, f"the same picture as {more.name}, in another size or format, or with a redrawn part"


def _are_versions(picture: PossibleCopy, other: PossibleCopy, apart: np.ndarray) -> bool:
    if _of_other_seeds(picture, other) or not picture.has_shape_of(other):
        return False
    of_one_run = bool(picture.drawing.workflow) and picture.drawing.workflow == other.drawing.workflow
    if of_one_run or (picture.settings is not None and picture.settings == other.settings):
        return picture.likeness(other) >= _REDRAWN_LIKENESS
    saved_again = picture.size != other.size or picture.format != other.format
    return saved_again and bool(apart.max() <= _SAME_CELL and apart.mean() <= _SAME_MEAN)


_LAYOUTS = [(columns, rows) for columns in range(1, 5) for rows in range(1, 5) if columns * rows > 1]
_MOST_SHEETS = 300  # pictures of one prompt that are searched for sheets


def _tiled(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    """Find sheets that show at least two of the other pictures."""
    own = [picture for picture in _comparable(pictures) if picture.cells.std() > _FLAT]
    if len(own) < 3 or len(own) > _MOST_SHEETS:
        return
    shapes = np.array([picture.size[0] / picture.size[1] for picture in own])
    for columns, rows in _LAYOUTS:
        box = _SIDE // columns, _SIDE // rows
        small = np.array([_resized(Image.fromarray(picture.grey), box) for picture in own])
        for place, sheet in enumerate(own):
            tile_shape = sheet.size[0] / columns / (sheet.size[1] / rows)
            others = np.flatnonzero(np.abs(shapes / tile_shape - 1) <= _SAME_SHAPE)
            others = others[others != place]
            if len(others) > 1 and _n_shown(sheet, small[others], columns, rows) > 1:
                yield sheet, "a contact sheet of other pictures"


def _n_shown(sheet: PossibleCopy, small: np.ndarray, columns: int, rows: int) -> int:
    """Count the pictures ``small (n, pixels)`` that are tiles of a sheet."""
    whole, tiles = Image.fromarray(sheet.grey), set[int]()
    for row in range(rows):
        for column in range(columns):
            width, height = _SIDE / columns, _SIDE / rows
            part = (column * width, row * height, (column + 1) * width, (row + 1) * height)
            tile = _resized(whole, (_SIDE // columns, _SIDE // rows), part)
            apart = np.abs(small - tile).mean(axis=1)
            nearest = int(apart.argmin())
            if apart[nearest] <= _REDRAWN_MEAN and tile.std() > _FLAT:
                likeness = np.corrcoef(small[nearest], tile)[0, 1]
                tiles |= {nearest} if likeness >= _REDRAWN_LIKENESS else set()
    return len(tiles)


def _resized(
    image: Image.Image, size: tuple[int, int], part: tuple[float, float, float, float] | None = None
) -> np.ndarray:
    return np.asarray(image.resize(size, Image.Resampling.BOX, box=part), dtype=float).ravel()
