"""Where the people of a drawn picture are, however many: by their eyes or glasses, of whatever size."""

from functools import cache

import numpy as np
from PIL import Image, ImageDraw
from scipy import fft

from bias_core.crops import Box
from bias_core.world.scene import GRID, HEAD_TO_FOOT
from bias_core.world.shapes import paint_shapes, shapes

_SHEET, _SIZE = 256, 128  # pixels of the drawing book, and of the picture that is looked at
_UNIT = _SHEET // _SIZE
_PARTS = {"eyes": ("eyes",), "lashes": ("eyes", "lashes feminine"), "glasses": ("eyes", "glasses")}
_OVER = {"glasses under a brim": ("glasses", "sombrero")}  # what is drawn over a part, and hides some of it
_SCALES = tuple(GRID * k for k in range(17, 54))  # of a portrait: those of which several people are drawn
_EYES = (128, 106)  # about their middle, on the sheet of one person
_BEFORE = 100  # pixels: a corner further on stands for one as far to the left of the picture
_WORST = 0.015  # mean squared difference of greys in [0, 1] that still is a pair of eyes
_APART = 60  # of two people's eyes, on the sheet of one person
_ALIKE = (((128,), 1.0), ((66, 190), 0.68))  # middles and size of one person, and of two who stand alike

Face = tuple[float, float, float]  # corner of the sheet of one person in pixels of 256, and scale


@cache
def _template(part: str, scale: float, corner: tuple[float, float] = (0.0, 0.0)) -> tuple[np.ndarray, np.ndarray]:
    """Greys and mask, each ``(size, size)``, of what is drawn of a person whose sheet has its corner there."""
    if part in _OVER:
        below, over = _OVER[part]
        return _drawn((*_PARTS[below], over), scale, corner)[0], _template(below, scale, corner)[1]
    return _drawn(_PARTS[part], scale, corner)


def _drawn(layout: tuple[str, ...], scale: float, corner: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    layers = []
    for background in (0, 255):  # where they differ, nothing is drawn
        sheet = Image.new("RGB", (_SHEET, _SHEET), (background,) * 3)
        for one in layout:
            paint_shapes(ImageDraw.Draw(sheet), shapes("person", one), {}, corner=corner, scale=(scale, scale))
        layers.append(np.asarray(sheet.convert("L").reduce(_UNIT), dtype=np.float32) / 255)
    return layers[0], (np.abs(layers[0] - layers[1]) < 0.01).astype(np.float32)


@cache
def _spectra() -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[str, float]]]:
    """Of every part and scale: spectrum of the mask, of what is drawn in it, its square sum by pixel; and which."""
    masks, drawings, constants, which = [], [], [], []
    for part in (*_PARTS, *_OVER):
        for scale in _SCALES:
            greys, mask = _template(part, scale)
            n = mask.sum()
            masks.append(np.conj(fft.rfft2(mask / n)))
            drawings.append(np.conj(fft.rfft2(2 * mask * greys / n)))
            constants.append(float((mask * greys**2).sum() / n))
            which.append((part, scale))
    return np.stack(masks), np.stack(drawings), np.array(constants, np.float32)[:, None, None], which


def drawn_faces(greys: np.ndarray) -> list[Face]:
    """Everybody with a face, from left to right; of who is seen from behind none is drawn, so that nobody is found.

    Where the eyes, or the glasses, of some size differ least from the picture, ``(128, 128)`` in [0, 1], and little.
    """
    masks, drawings, constants, which = _spectra()
    own, squares = fft.rfft2(greys), fft.rfft2(greys**2)
    errors = fft.irfft2(squares * masks - own * drawings, s=(_SIZE, _SIZE), workers=1) + constants
    candidates = []
    for kind, y, x in np.argwhere(errors < _WORST):
        scale = which[kind][1]
        corner = [one - _SIZE if one > _BEFORE else one for one in (x, y)]
        candidates.append((float(errors[kind, y, x]), _UNIT * corner[0], _UNIT * corner[1], scale))
    faces: list[Face] = []
    for _, x, y, scale in sorted(candidates):
        middle = x + _EYES[0] * scale
        if all(abs(middle - other[0] - _EYES[0] * other[2]) > _APART * max(scale, other[2]) for other in faces):
            faces.append((x, y, scale))
    return sorted(faces, key=lambda face: face[0] + _EYES[0] * face[2])


def boxes_of_faces(image: Image.Image) -> list[Box]:
    """Boxes of several people from left to right, in pixels; [] for fewer than two, and for two who stand alike.

    >>> from bias_core.world.render import render
    >>> from bias_core.world.scene import Person, Place, Scene
    >>> places = tuple(Place(centre=centre, scale=0.5, depth=0) for centre in (44, 128, 212))
    >>> boxes_of_faces(render(Scene(people=(Person(),) * 3, places=places), 128))
    [(1, 64, 43, 128), (43, 64, 85, 128), (85, 64, 127, 128)]
    """
    small = image.convert("L").resize((_SIZE, _SIZE), Image.Resampling.BOX)
    greys = np.asarray(small, dtype=np.float32) / 255
    if any(all(_is_at(greys, middle, scale) for middle in middles) for middles, scale in _ALIKE):
        return []
    faces = drawn_faces(greys)
    return [_box(face, image.size) for face in faces] if len(faces) > 1 else []


def _is_at(greys: np.ndarray, middle: int, scale: float) -> bool:
    """Whether somebody of this size stands there, as :func:`bias_core.world.render.draw_person` draws them."""
    corner = middle - _SHEET / 2 * scale, _SHEET - _SHEET * scale
    for part in (*_PARTS, *_OVER):
        drawn, mask = _template(part, scale, corner)
        if float((mask * (greys - drawn) ** 2).sum() / mask.sum()) < _WORST:
            return True
    return False


def _box(face: Face, size: tuple[int, int]) -> Box:
    (x, y, scale), (width, height) = face, size
    left, top, right, bottom = HEAD_TO_FOOT
    x0, x1 = ((x + end * scale) * width / _SHEET for end in (left, right))
    y0, y1 = ((y + end * scale) * height / _SHEET for end in (top, bottom))
    return max(0, round(x0)), max(0, round(y0)), min(width, round(x1)), min(height, round(y1))
