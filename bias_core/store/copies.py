"""Copies in an import: pictures that are certainly another file of one picture, and pictures that only look alike."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
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
    """A picture that may be a copy of another one."""

    name: str
    prompt: str  # its key
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
        return blocks.mean(axis=(1, 3), dtype=np.float32).reshape(-1, 3)  # type: ignore[no-any-return]

    @property
    def is_flat(self) -> bool:
        """Return true if it has too little contrast to be compared."""
        return bool(self.cells.mean(axis=1).std() <= _FLAT)

    @property
    def n_pixels(self) -> int:
        """Width times height."""
        return self.size[0] * self.size[1]

    def contradicts(self, second: "PossibleCopy") -> bool:
        """Return true if both have a known seed or way of drawing, and these differ."""
        pairs = ((self.drawing.seed, second.drawing.seed), (self.way, second.way))
        return any(first not in (None, "") and second not in (None, "") and first != second for first, second in pairs)

    def has_same_shape(self, second: "PossibleCopy") -> bool:
        """Return true if both have the same proportions."""
        own_shape, other_shape = (size[0] / size[1] for size in (self.size, second.size))
        return abs(own_shape / other_shape - 1) <= _SAME_SHAPE


def get_thumbnail(image: Image.Image) -> np.ndarray:
    """Return the thumbnail by which pictures are compared, ``(48, 48, 3)``."""
    return np.asarray(image.convert("RGB").resize((_SIDE, _SIDE), Image.Resampling.BILINEAR))


CopiesWithReasons = Iterator[tuple[PossibleCopy, str]]


def find_copies(pictures: Sequence[PossibleCopy]) -> dict[str, str]:
    """Return the pictures of one prompt that certainly show another one again, with reasons.

    A copy has the same content, or the same pixels after scaling, up to what saving it again changes, and no other
    seed, model or LoRA. Drafts and contact sheets are known by their program's names or record, or show other pictures.
    """
    reasons: dict[str, str] = {}

    def note(found: CopiesWithReasons) -> None:
        for picture, reason in found:
            reasons.setdefault(picture.name, reason)

    for find in (_find_drafts_and_sheets, _find_same_files, _find_same_pixels, _find_saved_again, _find_tiled_sheets):
        note(find(_without(pictures, reasons)))
    return reasons


def describe_possible_copies(pictures: Sequence[PossibleCopy]) -> list[str]:
    """Name pictures of all prompts that may be copies or contact sheets of others, but not certainly."""
    remarks, comparable = dict[str, str](), _comparable(pictures)

    def remark(first: PossibleCopy, second: PossibleCopy, relation: str) -> None:
        though = ", though they have different prompts" if first.prompt != second.prompt else ""
        remarks.setdefault(second.name, f"{relation} {first.name}{though}")

    for keys, relation in (
        ([picture.pixels for picture in comparable], "has the same pixels as"),
        ([*map(_get_settings, comparable)], "repeats the seed and settings of"),
    ):
        for group in _group_alike(comparable, keys):
            for picture in group[1:]:
                remark(group[0], picture, relation)
    for pair in sorted(_pairs_alike(pictures), key=lambda pair: pair.mean):
        is_likely = pair.first.prompt == pair.second.prompt or pair.is_within_noise
        if is_likely and not pair.first.contradicts(pair.second):
            remark(pair.first, pair.second, "looks like")
    for sheet, tiles, _ in _find_sheets_and_tiles(pictures):
        remarks.setdefault(sheet.name, f"may be a contact sheet of {' and '.join(tile.name for tile in tiles[:2])}")
    return [f"{picture.name} {remarks[picture.name]}" for picture in pictures if picture.name in remarks]


def _without(pictures: Sequence[PossibleCopy], reasons: Mapping[str, str]) -> list[PossibleCopy]:
    return [picture for picture in pictures if picture.name not in reasons]


def _get_settings(picture: PossibleCopy) -> Hashable:
    """Return the known settings that decide the pixels, of a picture in its size; None without a seed."""
    facts = picture.drawing
    if facts.seed is None or picture.own_id:
        return None
    return (picture.prompt, facts.seed, facts.negative_prompt, facts.num_inference_steps, facts.guidance_scale,
            facts.sampler, picture.way, facts.workflow)  # fmt: skip


def _group_alike(pictures: Sequence[PossibleCopy], keys: Sequence[Hashable]) -> list[list[PossibleCopy]]:
    groups: dict[Hashable, list[PossibleCopy]] = defaultdict(list)
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
    for group in _group_alike(pictures, files) + _group_alike(
        pictures, [picture.own_id or None for picture in pictures]
    ):
        yield from ((picture, f"the same picture as {group[0].name}") for picture in group[1:])


def _find_same_pixels(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    comparable = _comparable(pictures)
    for group in _group_alike(comparable, [picture.pixels for picture in comparable]):
        for place, picture in enumerate(group):
            if same := next((first for first in group[:place] if not picture.contradicts(first)), None):
                yield picture, f"the same pixels as {same.name}"


def _comparable(pictures: Sequence[PossibleCopy]) -> list[PossibleCopy]:
    return [picture for picture in pictures if not picture.is_blank and not picture.own_id]


@dataclass(frozen=True, kw_only=True)
class PairAlike:
    """Two pictures that look alike, in their order, with the largest and the mean difference of their cells."""

    first: PossibleCopy
    second: PossibleCopy
    max_difference: float
    mean: float

    @property
    def is_within_noise(self) -> bool:
        """Return true if saving one of them again can make the other."""
        return self.max_difference <= _SAVED_AGAIN_MOST and self.mean <= _SAVED_AGAIN_MEAN


def _find_saved_again(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    """Find pictures in two sizes or formats; the largest counts, then the first."""
    for pair in _pairs_alike(pictures, _SAVED_AGAIN_MEAN):
        first, second = pair.first, pair.second
        is_saved_again = first.size != second.size or first.format != second.format
        if is_saved_again and pair.is_within_noise and not first.contradicts(second):
            kept, copy = (second, first) if second.n_pixels > first.n_pixels else (first, second)
            yield copy, f"the same picture as {kept.name}, in another size or format"


def _pairs_alike(pictures: Sequence[PossibleCopy], most_mean: float = _ALIKE_MEAN) -> Iterator[PairAlike]:
    """Yield pairs that look alike: each picture with the nearest of those that are no darker."""
    order = {picture.name: place for place, picture in enumerate(pictures)}
    comparable = [picture for picture in _comparable(pictures) if not picture.is_flat]
    comparable.sort(key=lambda picture: float(picture.cells.mean()))
    if len(comparable) < 2:
        return
    cells = np.array([picture.cells for picture in comparable])
    means, shapes = cells.mean(axis=(1, 2)), _standardise(cells.reshape(len(cells), -1))
    for place, picture in enumerate(comparable):
        end = int(np.searchsorted(means, means[place] + most_mean, side="right"))
        likeness = shapes[place + 1 : end] @ shapes[place]
        likely = np.argsort(-likeness, kind="stable")[:_MOST_COMPARED]
        candidates = place + 1 + likely[likeness[likely] >= _ALIKE_LIKENESS]
        differences = np.abs(cells[candidates] - cells[place])
        distances = differences.mean(axis=(1, 2))
        for nearest in np.argsort(distances, kind="stable")[:_MOST_ALIKE]:
            neighbour = comparable[candidates[nearest]]
            if distances[nearest] <= most_mean and picture.has_same_shape(neighbour):
                first, second = sorted((picture, neighbour), key=lambda each: order[each.name])
                max_difference, mean = float(differences[nearest].max()), float(distances[nearest])
                yield PairAlike(first=first, second=second, max_difference=max_difference, mean=mean)


_MOST_COMPARED, _MOST_ALIKE = 300, 30  # pictures that one is compared with, and is found to look like
_LAYOUTS = [(columns, rows) for columns in range(1, 5) for rows in range(1, 5) if columns * rows > 1]
_MOST_SEARCHED, _MOST_SHEETS = 300, 100  # pictures, of more than which the largest of rare sizes may be sheets
_GAPS = (0.0, 0.05, 0.1)  # between the tiles of a sheet, as a part of a tile
_TILE = 12  # pixels of a tile that is compared
_LIKELY_SHAPE, _LIKELY_LIKENESS = 0.15, 0.9  # of a tile of what may be a sheet


def _find_tiled_sheets(pictures: Sequence[PossibleCopy]) -> CopiesWithReasons:
    """Find sheets that certainly show at least two of the other pictures."""
    found = _find_sheets_and_tiles(pictures, _GAPS[:1])
    yield from ((sheet, "a contact sheet of other pictures") for sheet, _, is_certain in found if is_certain)


def _find_sheets_and_tiles(
    pictures: Sequence[PossibleCopy], gaps: Sequence[float] = _GAPS
) -> Iterator[tuple[PossibleCopy, list[PossibleCopy], bool]]:
    """Yield possible sheets with at least two other pictures that they show, and whether they certainly are sheets."""
    comparable = [picture for picture in _comparable(pictures) if not picture.is_flat]
    if len(comparable) < 3:
        return
    shapes = np.array([picture.size[0] / picture.size[1] for picture in comparable])
    small = np.array([_resize(Image.fromarray(picture.thumbnail)) for picture in comparable], dtype=np.float32)
    ((commonest, _),) = Counter(picture.size for picture in comparable).most_common(1)
    places = sorted(range(len(comparable)), key=lambda place: -comparable[place].n_pixels)
    if len(places) > _MOST_SEARCHED:
        places = [place for place in places if comparable[place].size != commonest][:_MOST_SHEETS]
    standard = _standardise(small)
    for place, (columns, rows), gap in product(places, _LAYOUTS, gaps):
        differs = np.abs(shapes / (shapes[place] * rows / columns) - 1)
        is_other = (differs <= _LIKELY_SHAPE) & (np.arange(len(shapes)) != place)
        if is_other.sum() < 2:
            continue
        tiles = _cut_tiles(comparable[place], columns, rows, gap)
        likeness = np.where(is_other, _standardise(tiles) @ standard.T, -1.0)
        nearest, likeness = likeness.argmax(axis=1), likeness.max(axis=1)
        likely = likeness >= _LIKELY_LIKENESS
        certain = (likeness >= _ALIKE_LIKENESS) & (differs[nearest] <= _SAME_SHAPE) & (gap == 0.0)
        certain &= np.abs(tiles - small[nearest]).mean(axis=1) <= _ALIKE_MEAN
        if len(tile_places := [*dict.fromkeys(nearest[likely].tolist())]) > 1:
            is_certain = len({*nearest[certain].tolist()}) > 1
            yield comparable[place], [comparable[n] for n in tile_places], is_certain


def _cut_tiles(sheet: PossibleCopy, columns: int, rows: int, gap: float) -> np.ndarray:
    """Cut a sheet into the tiles that are not flat, ``(n, values)``, without the gap between them."""
    whole, width, height = Image.fromarray(sheet.thumbnail), _SIDE / columns, _SIDE / rows
    corners = [
        ((column + gap / 2) * width, (row + gap / 2) * height) for row in range(rows) for column in range(columns)
    ]
    tiles = [_resize(whole, (x, y, x + (1 - gap) * width, y + (1 - gap) * height)) for x, y in corners]
    return np.array([tile for tile in tiles if tile.std() > _FLAT]).reshape(-1, 3 * _TILE**2)


def _standardise(values: np.ndarray) -> np.ndarray:
    """Shift and scale each row to mean 0 and length 1."""
    shifted = values - values.mean(axis=1, keepdims=True)
    return shifted / np.linalg.norm(shifted, axis=1, keepdims=True)  # type: ignore[no-any-return]


def _resize(image: Image.Image, part: tuple[float, float, float, float] | None = None) -> np.ndarray:
    return np.asarray(image.resize((_TILE, _TILE), Image.Resampling.BOX, box=part), dtype=np.float32).ravel()
