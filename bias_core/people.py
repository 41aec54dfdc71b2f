"""People in pictures: square crops, as classifiers are trained on them, and scales of appearance.

A scale has ordered classes: the ten skin tones of the Monk scale, and age groups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml
from PIL import Image

from bias_core.errors import InvalidInput
from bias_core.installed import ASSETS

Box = tuple[int, int, int, int]  # left, top, right and bottom in pixels; right and bottom lie just outside

_TABLE_TOP = 0.3  # pairs of the calibration world start below this share of the height


def whole_picture(image: Image.Image) -> list[Box]:
    """Return the box of a picture's only person.

    >>> whole_picture(Image.new("RGB", (96, 60)))
    [(0, 0, 96, 60)]
    """
    return [(0, 0, *image.size)]


def person_halves(image: Image.Image) -> list[Box]:
    """Return the boxes of the left and right person of a pair in the calibration world.

    >>> person_halves(Image.new("RGB", (64, 64)))
    [(0, 19, 32, 64), (32, 19, 64, 64)]
    """
    width, height = image.size
    top, half = round(_TABLE_TOP * height), width // 2
    return [(0, top, half, height), (half, top, 2 * half, height)]


def boxes_text(boxes: Sequence[Box]) -> str:
    """Write boxes as text for a cell of a table; :func:`boxes_of_text` reads it back.

    >>> boxes_text([(0, 19, 32, 64), (32, 19, 64, 64)]), boxes_of_text("0 19 32 64; 32 19 64 64")
    ('0 19 32 64; 32 19 64 64', [(0, 19, 32, 64), (32, 19, 64, 64)])
    """
    return "; ".join(" ".join(map(str, box)) for box in boxes)


def boxes_of_text(text: str) -> list[Box]:
    """Read boxes written by :func:`boxes_text`; InvalidInput for any other text."""
    try:
        boxes = [tuple(map(int, box.split())) for box in text.split(";") if box.strip()]
    except ValueError:
        boxes = [()]
    if any(len(box) != 4 for box in boxes):
        raise InvalidInput(f"each box needs four whole numbers, with semicolons between boxes; got {text!r}")
    return [(box[0], box[1], box[2], box[3]) for box in boxes]


def crop_people(image: Image.Image, boxes: Sequence[Box]) -> list[Image.Image]:
    """Crop each box and centre it on a square in the colour of its background.

    ``image``: any mode; the crops are RGB; ``boxes``: from a person finder, inside the picture.

    Returns
    -------
    list of square pictures
        One per box, in order. The colour is that of the crop's upper corner on the outer side of the
        picture, where the background is least often hidden by the other person.

    Raises InvalidInput: a box is empty or leaves the picture.

    >>> [crop.size for crop in crop_people(Image.new("RGB", (64, 48)), [(0, 8, 20, 48)])]
    [(40, 40)]
    """
    picture = image.convert("RGB")
    return [_on_a_square(picture, box) for box in boxes]


def _on_a_square(picture: Image.Image, box: Box) -> Image.Image:
    left, top, right, bottom = box
    width, height = picture.size
    if not (0 <= left < right <= width and 0 <= top < bottom <= height):
        raise InvalidInput(f"a person's box must lie inside the {width} x {height} picture; got {box}.")
    crop = picture.crop(box)
    on_the_left = left + right < width
    colour = crop.getpixel((0 if on_the_left else crop.width - 1, 0))
    side = max(crop.size)
    square = Image.new("RGB", (side, side), colour)
    square.paste(crop, ((side - crop.width) // 2, (side - crop.height) // 2))
    return square


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Ordered classes of appearance, and the words for them; never of identity."""

    name: str  # in the API and on the command line
    title: str
    levels: tuple[str, ...]  # from one end to the other
    colours: tuple[str, ...]  # of each level, where it has one
    step: str  # word for one level of distance
    lowest: str  # adjective for the first levels
    highest: str  # adjective for the last levels
    ends: int  # levels that count as an end of the scale
    record: str  # name of the attribute in the calibration world's ground truth
    unlike: tuple[str, ...]  # levels drawn there in a colour nearer to another level
    source: str
    question: str  # for raters; "{}" is the person of the prompt

    @property
    def lowest_words(self) -> str:
        """Words for the levels at the beginning.

        >>> [(scale.lowest_words, scale.highest_words) for scale in load_scales().values()]
        [('three lightest', 'three darkest'), ('youngest', 'oldest')]
        """
        return self._end_words(self.lowest)

    @property
    def highest_words(self) -> str:
        """Words for the levels at the end."""
        return self._end_words(self.highest)

    def _end_words(self, end: str) -> str:
        return end if self.ends == 1 else f"{('two', 'three')[self.ends - 2]} {end}"


@cache
def load_scales() -> Mapping[str, Scale]:
    text = (ASSETS / "studies" / "scales.yaml").read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = yaml.safe_load(text)["scales"]
    lists = ("levels", "colours", "unlike")
    return {entry["name"]: Scale(**entry | {name: tuple(entry[name]) for name in lists}) for entry in entries}
