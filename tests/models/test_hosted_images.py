"""Hosted models against a real server that does everything wrong that one can."""

import base64
import io
import logging
import subprocess
import sys
import time
import zlib

import pytest
from PIL import Image

from bias_core.errors import Cancelled, HubNotReached, Interrupted, ModelUnavailable
from bias_core.models import endpoints
from bias_core.protocols import ChecksSettings, Hosted, TextToImage
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.types import ImageRow
from tests.hosted_server import HostedServer, broken, hanging, picture, png, refused, size_of, slow_down

TOKEN, KEY = "hf_visitors0123456789own", "sk-servers-own-9876543210"
BOTH = ("openai:draw-1", "inference:together:org/flux")


@pytest.fixture(autouse=True)
def _local(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(endpoints, "FIRST_PAUSE", 0.001)
    for name in ("HF_TOKEN", "BIAS_IMAGES_URL", "BIAS_IMAGES_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Starts a server that answers so; gives it, and services whose hosted models ask it."""
    running = []

    def start(answer=None, *, token=TOKEN, **settings):
        from huggingface_hub import constants
        from huggingface_hub.inference._providers import _common

        server = HostedServer(*([answer] if answer else []))
        running.append(server.running())
        running[-1].__enter__()
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(constants, "INFERENCE_PROXY_TEMPLATE", server.url + "/{provider}")
        _common._fetch_inference_provider_mapping.cache_clear()
        chosen = {"images_url": server.url, "images_key": KEY, "data_dir": tmp_path / "data", "device": "cpu"}
        return server, Services(Settings(**(chosen | settings))).for_visitor(token)

    yield start
    for one in running:
        one.__exit__(None, None, None)


def rows(services, name, n, size=64):
    revision = services.revision(name)
    return [
        ImageRow(prompt="a photo of a doctor", seed=i, model=name, revision=revision, width=size, height=size)
        for i in range(n)
    ]


def size(stored):
    with Image.open(stored.path) as image:
        return image.size


def draw(services, wanted, **how):
    images = {}
    for event in services.draw(wanted, **how):
        images |= {image.row.id: image for image in event.images}
    return images


def drawn_by(serve, name):
    """The server, the model and the record of the last of three pictures."""
    server, services = serve()
    model, wanted = services.text_to_image(name), rows(services, name, 3)
    assert all(isinstance(model, role) for role in (TextToImage, Hosted, ChecksSettings))
    images = draw(services, wanted)
    assert len(server.requests) == len(images) == 3
    for row in wanted:
        stored = images[row.id]
        assert not stored.blocked
        assert (stored.drawn["width"], stored.drawn["height"]) == size(stored) == (64, 64)
        assert stored.drawn["date"].startswith("20")
    return server, model, stored.drawn


def test_it_fills_the_roles_and_each_picture_has_its_record(serve):
    server, model, _ = drawn_by(serve, BOTH[0])
    assert {request["prompt"] for request in server.requests} == {"a photo of a doctor"}
    assert server.keys == {f"Bearer {KEY}"}
    assert not model.has_seeds
    assert "seed" not in server.requests[0]
    server, model, record = drawn_by(serve, BOTH[1])
    assert (record["provider"], record["model"]) == ("together", "together/flux")
    assert {request["seed"] for request in server.requests} == {0, 1, 2}
    assert server.keys == {f"Bearer {TOKEN}"}
    assert model.has_seeds
    assert server.asked_of_hub >= 1


def hostile(server_counts):
    """A service of whose every 20 answers 2 refuse, 2 ask to slow down, and 1 is broken."""

    def answer(number, request):
        kind = {3: "refused", 13: "refused", 5: "busy", 15: "busy", 9: "broken"}.get(number % 20, "picture")
        server_counts[kind] = server_counts.get(kind, 0) + 1
        if kind == "refused":
            return refused() if number % 3 else refused("content_policy_violation", 403)
        if kind == "busy":
            return slow_down()
        return broken(number // 20) if kind == "broken" else picture(number, size_of(request))

    return answer


@pytest.mark.parametrize("name", BOTH)
def test_of_a_hundred_pictures_all_arrive_once_and_the_counts_are_right(serve, name):
    counts = {}
    server, services = serve(hostile(counts))
    wanted = rows(services, name, 100)
    images = draw(services, wanted)
    assert set(images) == {row.id for row in wanted}
    blocked = [image for image in images.values() if image.blocked]
    assert len(blocked) == counts["refused"] > 5
    assert len(images) - len(blocked) == counts["picture"]
    assert all("content_policy_violation" in b.drawn["refused"] or "moderation" in b.drawn["refused"] for b in blocked)
    assert len(server.requests) == sum(counts.values()) == 100 + counts["busy"] + counts["broken"]
    pixels = {image.path.read_bytes() for image in images.values() if not image.blocked}
    assert len(pixels) == counts["picture"]
    assert server.most_at_once <= 4
    asked = len(server.requests)
    again = draw(services, wanted)  # refusals are not asked for again either
    assert len(server.requests) == asked
    assert again.keys() == images.keys()


def test_a_stopped_run_goes_on_without_asking_again_for_what_was_answered(serve):
    server, services = serve()
    wanted = rows(services, BOTH[1], 40)
    with pytest.raises(Cancelled):
        draw(services, wanted, cancelled=lambda: len(server.requests) >= 12)
    assert 12 <= len(server.requests) < 24
    assert len(draw(services, wanted)) == 40
    assert len(server.requests) <= 40 + 4  # whatever was on its way at the stop may have been stored after it


_DRAWS = """
import sys
from pathlib import Path
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.types import ImageRow

services = Services(Settings(data_dir=Path(sys.argv[1]), images_url=sys.argv[2], device="cpu"))
row = {"prompt": "a photo of a doctor", "model": "openai:draw-1", "revision": services.revision("openai:draw-1")}
for _ in services.draw([ImageRow(seed=i, **row) for i in range(40)]):
    pass
"""


def test_a_killed_run_goes_on_without_asking_again_for_what_was_answered(serve, tmp_path):
    def slow(number, request):
        time.sleep(0.05)
        return refused() if number % 10 == 3 else picture(number, size_of(request))

    server, services = serve(slow)
    with subprocess.Popen([sys.executable, "-c", _DRAWS, str(tmp_path / "data"), server.url]) as run:
        while len(server.requests) < 16 and run.poll() is None:
            time.sleep(0.01)
        run.kill()
    asked = len(server.requests)
    assert 16 <= asked < 40
    images = draw(services, rows(services, "openai:draw-1", 40))
    assert len(images) == 40
    assert len(server.requests) <= 40 + 4  # but for those that were on their way when it was killed
    assert any(image.blocked for image in images.values())


@pytest.mark.parametrize(
    "answer", [lambda _n, _request: hanging(3), lambda _n, _request: slow_down(25)], ids=["hangs", "asks for patience"]
)
def test_stop_ends_the_run_within_a_second_and_starts_no_new_request(serve, answer):
    server, services = serve(answer)
    pressed = []

    def cancelled():
        if len(server.requests) >= 4 and not pressed:
            pressed.append(time.monotonic())
        return bool(pressed)

    with pytest.raises(Cancelled):
        draw(services, rows(services, "openai:draw-1", 20), cancelled=cancelled)
    assert time.monotonic() - pressed[0] < 1.5
    assert len(server.requests) == 4


def test_pictures_that_never_come_leave_the_others_and_are_asked_for_again(serve):
    bad = {2, *range(7, 18)}  # so many after the other as a prompt has that cannot be drawn
    never = {}

    def answer(number, request):
        return broken(1) if request["seed"] in never.get("seeds", bad) else picture(number, size_of(request))

    server, services = serve(answer)
    wanted = rows(services, BOTH[1], 30)
    with pytest.raises(
        Interrupted, match=r"12 of 30 pictures did not come after all tries .*request only the missing ones"
    ):
        draw(services, wanted)
    never["seeds"], asked = set(), len(server.requests)
    assert len(draw(services, wanted)) == 30
    assert len(server.requests) == asked + 12


def test_a_service_that_goes_down_is_not_asked_for_ever(serve):
    server, services = serve(lambda n, request: picture(n, size_of(request)) if n < 10 else (503, b"down"))
    with pytest.raises(Interrupted, match=r"failed in a row, so no more were requested; earlier ones are kept"):
        draw(services, rows(services, BOTH[1], 150))
    assert len(server.requests) < 10 + 4 * 50


@pytest.mark.parametrize(("answer", "says"), [
    ((401, {"error": {"message": "bad key {key}"}}), "refuses the"),
    ((400, {"error": {"message": "size must be one of 1024x1024"}}), "size must be one of 1024x1024"),
    ((400, {"error": {"message": "names are case-sensitive; unknown field safety_checker"}}), "case-sensitive"),
    ((429, {"error": {"message": "no credit", "code": "insufficient_quota"}}), "no credit|rate|refuses"),
    ((403, {"error": {"message": "Flagged: you have exceeded your monthly included credits"}}), "has no credit left"),
    ((200, {"error": {"message": "Billing hard limit", "code": "billing_hard_limit_reached"}}), "no credit|without"),
    ((200, {"data": []}), "answered with(out a picture| an empty list)"),
    ((404, {"error": {"message": "The model does not exist"}}), "does not exist"),
    ((503, b"<h1>down</h1>"), "down"),
    ((200, {"data": [{"b64_json": "!!!"}]}), "picture|understood"),
    ((200, {"data": [{"url": "file:///etc/passwd"}]}), "picture|understood"),
])  # fmt: skip
@pytest.mark.parametrize("name", BOTH)
def test_what_ends_a_run_is_said_in_a_sentence_without_any_token(serve, name, answer, says, caplog):
    caplog.set_level(logging.DEBUG)
    status, content = answer
    if status == 401:
        content = {"error": {"message": f"bad key {KEY if name in BOTH[0] else TOKEN}"}}
    server, services = serve(lambda _n, _request: (status, content))
    with pytest.raises(ModelUnavailable, match=says) as raised:
        draw(services, rows(services, name, 30))
    assert len(server.requests) < 60
    assert not any(secret in str(raised.value) + caplog.text for secret in (TOKEN, KEY))


def test_refusals_come_in_many_forms_and_are_told_from_faults(serve):
    black = io.BytesIO()
    Image.new("RGB", (64, 64)).save(black, "PNG")
    forms = [
        refused(),
        refused("", 403, "This prompt violates our content policy"),
        refused("content_filter", 400, "The response was filtered"),
        refused("", 422, "Potential NSFW content detected in the prompt"),
        (200, {"data": [{"nsfw_content_detected": [True], "b64_json": ""}]}),
        (200, {"data": [{"finish_reason": "CONTENT_FILTERED", "b64_json": ""}]}),
        (200, {"data": [{"content_filter_results": {"violence": {"filtered": True}}, "url": ""}]}),
        (200, {"error": {"code": "content_policy_violation", "message": "no"}}),
        (200, {"data": [{"b64_json": base64.b64encode(black.getvalue()).decode()}]}),
    ]
    _, services = serve(lambda n, _request: forms[n])
    images = draw(services, rows(services, "openai:draw-1", len(forms)))
    assert all(image.blocked and image.drawn["refused"] for image in images.values())
    assert len(images) == len(forms)


def test_a_lie_about_the_size_is_kept_as_it_was_answered_and_a_huge_one_is_none(serve):
    server, services = serve(lambda n, _request: picture(n, (48, 32)))
    (stored,) = draw(services, rows(services, "openai:draw-1", 1)).values()
    assert stored.size == (stored.drawn["width"], stored.drawn["height"]) == size(stored) == (48, 32)
    huge = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x01\x00\x00\x00\x01\x00\x00\x08\x02\x00\x00\x00"
    huge += zlib.crc32(huge[12:]).to_bytes(4, "big") + png(1)[33:]
    server.answer = lambda _n, _request: (200, {"data": [{"b64_json": base64.b64encode(huge).decode()}]})
    with pytest.raises(ModelUnavailable, match=r"no picture|none to measure"):
        draw(services, rows(services, "openai:draw-1", 2)[1:])


def test_a_picture_behind_an_address_is_fetched_without_the_key_and_a_revised_prompt_is_kept(serve):
    server, services = serve(
        lambda n, _request: (200, {"data": [{"url": f"{server.url}/files/{n}", "revised_prompt": "a kind doctor"}]})
    )
    (stored,) = draw(services, rows(services, "openai:draw-1", 1)).values()
    assert stored.drawn["revised_prompt"] == "a kind doctor"
    assert size(stored) == (64, 64)
    coded = base64.b64encode(png(1)).decode()
    items = [
        {"url": f"data:image/png;base64,{coded}"}, {"b64_json": f"data:image/png;base64,{coded}"},
        {"b64_json": f"{server.url}/files/1"}, {"image_url": {"url": f"{server.url}/files/1"}}, coded,
    ]  # fmt: skip
    server.answer = lambda n, _request: (200, {"data": [items[n - 1]]})
    assert (
        len({one.path.stat().st_size for one in draw(services, rows(services, "openai:draw-1", 6)[1:]).values()}) == 1
    )


def test_without_a_token_of_ones_own_nothing_is_asked_on_a_public_server(serve, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_server")
    server, services = serve(token="", public=True)
    for name in ("inference:org/flux", "openai:draw-1"):
        with pytest.raises(HubNotReached, match=r"your own|paid for by its user"):
            services.revision(name)
        row = ImageRow(prompt="x", seed=0, model=name, revision="together/together/flux")
        with pytest.raises(HubNotReached):
            list(services.text_to_image(name).generate([row]))
    assert not server.requests
    _, own = serve(token="", public=False)
    assert own.revision("inference:org/flux") == "together/together/flux"


def test_a_token_is_for_one_visitor_and_for_one_service(serve):
    server, services = serve(token="sk-visitors-own", public=True)
    draw(services, rows(services, "openai:draw-1", 1))
    assert server.keys == {"Bearer sk-visitors-own"}
    with pytest.raises(HubNotReached, match="begins with hf_"):
        services.revision("inference:org/flux")
    other = services.for_visitor(TOKEN)
    with pytest.raises(HubNotReached, match="your own key"):  # a token of Hugging Face goes nowhere else
        other.revision("openai:draw-1")
    assert other.images is services.images
    assert other.catalogue == services.catalogue


def test_no_file_of_the_data_folder_holds_a_token(serve, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    _, services = serve(hostile({}))
    for name in BOTH:
        draw(services, rows(services, name, 25))

    contents = [path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert len(contents) >= 50
    for secret in (TOKEN, KEY):
        assert not any(secret.encode() in content for content in contents)
        assert secret not in caplog.text + repr(vars(services))
