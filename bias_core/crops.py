"""Each person of a picture on a square of their own, as the readers of pictures are trained to see them."""

from collections.abc import Sequence

from PIL import Image

from bias_core.errors import InvalidInput

Box = tuple[int, int, int, int]  # left, top, right and bottom in pixels; right and bottom lie just outside

_TABLE_TOP = 0.3  # two people of the calibration world stand below this share of the height


def person_halves(image: Image.Image) -> list[Box]:
    """Boxes of the left and the right person of a pair in the calibration world.

    >>> person_halves(Image.new("RGB", (64, 64)))
    [(0, 19, 32, 64), (32, 19, 64, 64)]
    """
    width, height = image.size
    top, middle = round(_TABLE_TOP * height), width // 2
    return [(0, top, middle, height), (middle, top, 2 * middle, height)]


def crop_people(image: Image.Image, boxes: Sequence[Box]) -> list[Image.Image]:
    """The part of the picture in each box, centred on a square of the colour behind the person.

    ``image``: any mode; the crops are RGB; ``boxes``: what a person finder gave, inside the picture.

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
