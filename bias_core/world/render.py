"""Scenes to pictures: drawn large with Pillow and reduced by a box filter, in about a millisecond."""

from functools import cache

from PIL import Image, ImageDraw

from bias_core.world.scene import CHILD, RGB, Box, Person, Scene, drawing, mix, paint, paint_shapes, rgb, shapes

SHEET = 256
SKIN_COLOURS: tuple[str, ...] = (
    "#f6ede4", "#f3e7db", "#f7d8c0", "#eabf95", "#cf9f70",
    "#a77248", "#835936", "#60412b", "#3f2e25", "#2c221e",
)  # fmt: skip
"""The world's own ten, in the order of the Monk scale; the published swatches nearest to the third and fourth of them
are the second and fifth (CIEDE2000)."""
HAIR: dict[str, str] = {"black": "#22201f", "brown": "#6d4326", "blond": "#e6bf62", "red": "#b9501f"}
GREY_HAIR = "#c3c6ca"
CLOTHS = {
    "turban": ("#f4efe2", "#e08a2e", "#5c79b8", "#b83d4f"),
    "headscarf": ("#6d4a9c", "#1f8a83", "#c8567e", "#36558f"),
}
"""Colours of a headdress, by the person's shade."""
_CLOTHING = "clothing"  # which has a section of its own in the drawing book


def render(scene: Scene, size: int = 64) -> Image.Image:
    """Draw ``scene`` as an RGB picture of ``size`` x ``size`` pixels.

    The same scene gives the same pixels; ``size`` is 32, 64, 128 or 256 (a divisor of 256).

    >>> from bias_core.world.scene import Person, Scene
    >>> render(Scene(people=(Person(),))).size
    (64, 64)
    """
    sheet = Image.new("RGB", (SHEET, SHEET), rgb(scene.backdrop))
    draw = ImageDraw.Draw(sheet)
    if scene.places:
        _draw_in_places(sheet, draw, scene)
    elif len(scene.people) == 2:
        _draw_pair(sheet, draw, scene)
    elif scene.people:
        person = scene.people[0]
        _draw_setting(draw, person.look.setting, scene)
        draw_person(sheet, person)
        _draw_held(draw, person, (176, 172, 252, 248))
        _draw_flag(draw, person, (196, 8, 250, 48))
    elif scene.thing:
        _draw_setting(draw, scene.setting, scene)
        draw.ellipse((58, 190, 198, 222), fill=mix(rgb(scene.backdrop), (40, 36, 40), 0.35))
        paint(draw, "icons", scene.thing.icon, (52, 50, 204, 208), colour=rgb(scene.thing.colour))
    else:
        _draw_setting(draw, scene.setting, scene)
    if scene.light != "neutral":
        paint(draw, "light", scene.light, (2, 2, SHEET, SHEET))
    if scene.extra:
        paint(draw, "icons", scene.extra, (4, 150, 66, 212))
    return sheet.reduce(SHEET // size) if size < SHEET else sheet


def _draw_pair(sheet: Image.Image, draw: ImageDraw.ImageDraw, scene: Scene) -> None:
    left, right = scene.people
    middle = SHEET // 2
    _draw_setting(draw, right.look.setting, scene)
    half = Image.new("RGB", (SHEET, SHEET), rgb(scene.backdrop))
    _draw_setting(ImageDraw.Draw(half), left.look.setting, scene)
    sheet.paste(half.crop((0, 0, middle, SHEET)), (0, 0))
    draw_person(sheet, left, centre=66, scale=0.68)
    draw_person(sheet, right, centre=190, scale=0.68)
    _draw_held(draw, left, (2, 198, 56, 252))
    _draw_held(draw, right, (200, 198, 254, 252))
    _draw_flag(draw, left, (84, 8, 124, 38))
    _draw_flag(draw, right, (210, 8, 250, 38))


def _draw_in_places(sheet: Image.Image, draw: ImageDraw.ImageDraw, scene: Scene) -> None:
    """Each before a strip of their own setting, who stands higher first."""
    n = len(scene.people)
    for number, person in enumerate(scene.people):
        strip = Image.new("RGB", (SHEET, SHEET), rgb(scene.backdrop))
        _draw_setting(ImageDraw.Draw(strip), person.look.setting, scene)
        start, end = round(SHEET * number / n), round(SHEET * (number + 1) / n)
        sheet.paste(strip.crop((start, 0, end, SHEET)), (start, 0))
        _draw_flag(draw, person, (start + 4, 6, start + 34, 28))
    both = list(zip(scene.people, scene.places, strict=True))
    for person, place in sorted(both, key=lambda one: -one[1].depth):
        draw_person(sheet, person, centre=place.centre, scale=place.scale, depth=place.depth)
        width = 74 * place.scale
        left, foot = place.centre - 46 * place.scale - width, SHEET - place.depth
        _draw_held(draw, person, (round(left), round(foot - width), round(left + width), foot))


def _draw_setting(draw: ImageDraw.ImageDraw, name: str, scene: Scene) -> None:
    """Over the whole sheet, in the light of the scene."""
    backdrop = rgb(scene.backdrop)
    tint = {"bright": (255, 244, 196), "gloomy": (96, 100, 122), "neutral": backdrop}[scene.light]
    paint(draw, "settings", name, (0, 0, SHEET, SHEET), colour=mix(backdrop, tint, 0.75))


def _draw_held(draw: ImageDraw.ImageDraw, person: Person, box: Box) -> None:
    if not person.look.prop:
        return
    paint(draw, "icons", person.look.prop, box, colour=rgb(person.look.colour))
    x = box[0] + 0.1 * (box[2] - box[0]) if box[0] > SHEET / 2 else box[2] - 0.1 * (box[2] - box[0])
    y, r = box[1] + 0.72 * (box[3] - box[1]), 0.14 * (box[2] - box[0])
    draw.ellipse((x - r, y - r, x + r, y + r), fill=rgb(SKIN_COLOURS[person.skin - 1]))


def _draw_flag(draw: ImageDraw.ImageDraw, person: Person, box: Box) -> None:
    if person.look.flag:
        paint(draw, "flags", person.look.flag, box)


def draw_person(sheet: Image.Image, person: Person, *, centre: float = 128, scale: float = 1.0, depth: int = 0) -> None:
    """Draw ``person``, part by part, the middle of the body at x = ``centre``, ``depth`` above the foot."""
    scale *= CHILD if person.age == "child" else 1.0
    corner = centre - 128 * scale, 256 - depth - 256 * scale
    draw, tints = ImageDraw.Draw(sheet), _tints(person)
    for part in _parts(person):
        if part == _CLOTHING:
            _dress(sheet, person, tints["skin"], corner, scale, depth)
        elif part in drawing("person"):
            paint_shapes(draw, shapes("person", part), tints, corner=corner, scale=(scale, scale))


def _parts(person: Person) -> list[str]:
    """What is drawn of a person, from back to front; not every value of an attribute has a part."""
    gender, beard, expression = person.gender, person.moustache, person.expression
    if gender == "unclear":  # seen from behind
        return ["neck", _CLOTHING, "ears", "hair unclear", person.headwear]
    return [
        *(f"behind {gender}", "neck", _CLOTHING, f"role {person.look.role}", "ears", f"face {gender}", "cheeks"),
        *(f"age {person.age}", "nose", f"hair {gender}", "eyes"),
        f"brows {gender}{' frowning' if expression == 'frowning' else ''}",
        f"lashes {gender}",
        *(["beard"] if person.beard else []),
        *(["moustache"] if person.moustache else []),
        f"{expression}{' moustache' if beard else ''}",
        *(["glasses"] if person.glasses else []),
        person.headwear,
        *(["mark"] if person.mark else []),
    ]


def _tints(person: Person) -> dict[str, RGB]:
    skin, line = rgb(SKIN_COLOURS[person.skin - 1]), rgb("line")
    hair = rgb(GREY_HAIR if person.age == "old" else HAIR[person.hair])
    cloths = CLOTHS.get(person.headwear, GREY_HAIR)
    return {
        "skin": skin,
        "hair": hair,
        "brow": hair if person.age == "old" else mix(hair, line, 0.35),
        "crease": mix(skin, line, 0.42 if person.skin < 7 else 0.6),
        "lips": _lips(person.gender, skin),
        "cloth": rgb(cloths[person.shade % len(cloths)]) if person.headwear in CLOTHS else hair,
    }


def _lips(gender: str, skin: RGB) -> RGB:
    if gender == "androgynous":
        return mix(skin, rgb("#b8423c"), 0.6)
    return rgb("#c9203f") if gender == "feminine" else mix(skin, rgb("#5c2018"), 0.62)


def _dress(
    sheet: Image.Image, person: Person, skin: RGB, corner: tuple[float, float], scale: float, depth: int = 0
) -> None:
    """The clothing of the torso, down to the foot of the sheet."""
    name = person.look.clothing if person.dress == "everyday" else person.dress
    colour = rgb(person.shirt if person.look.clothing in ("plain", "") else person.look.colour)
    left, top, right, bottom = (round(corner[i % 2] + v * scale) for i, v in enumerate((44, 186, 212, 262)))
    bottom += depth
    size = (right - left, bottom - top)
    cloth = Image.new("RGB", size)
    paint(ImageDraw.Draw(cloth), "clothing", name or "plain", (0, 0, *size), colour=colour, skin=skin)
    sheet.paste(cloth, (left, top), _shoulders(size, person.gender))


@cache
def _shoulders(size: tuple[int, int], gender: str) -> Image.Image:
    """Mask of the torso: sloping shoulders, broader for masculine people, between for those of neither side."""
    mask = Image.new("L", size)
    width, height = size
    half = [(0.30, 0.0), (0.14, 0.09), (0.0, 0.36), (0.0, 1.0)]
    if gender == "feminine":
        half = [(0.32, 0.0), (0.17, 0.14), (0.05, 0.5), (0.05, 1.0)]
    elif gender != "masculine":
        half = [(0.31, 0.0), (0.155, 0.115), (0.025, 0.43), (0.025, 1.0)]
    outline = half + [(1 - x, y) for x, y in reversed(half)]
    ImageDraw.Draw(mask).polygon([(x * width, y * height) for x, y in outline], fill=255)
    return mask
