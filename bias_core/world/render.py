"""Scenes to pictures: drawn large with Pillow and reduced by a box filter, in about a millisecond."""

from PIL import Image, ImageDraw

from bias_core.world.portrait import MONK, draw_person
from bias_core.world.scene import Person, Scene
from bias_core.world.shapes import Box, mix, paint, rgb

SHEET = 256


def render(scene: Scene, size: int = 64) -> Image.Image:
    """Draw ``scene`` as an RGB picture of ``size`` x ``size`` pixels.

    Parameters
    ----------
    scene : what to show; the same scene gives the same pixels.
    size : 32, 64, 128 or 256 (a divisor of 256).

    Examples
    --------
    >>> from bias_core.world.scene import Person, Scene
    >>> render(Scene(people=(Person(),))).size
    (64, 64)
    """
    sheet = Image.new("RGB", (SHEET, SHEET), rgb(scene.backdrop))
    draw = ImageDraw.Draw(sheet)
    if len(scene.people) == 2:
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
    draw.ellipse((x - r, y - r, x + r, y + r), fill=rgb(MONK[person.skin - 1]))


def _draw_flag(draw: ImageDraw.ImageDraw, person: Person, box: Box) -> None:
    if person.look.flag:
        paint(draw, "flags", person.look.flag, box)
