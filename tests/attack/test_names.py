"""On a public server a name is a name: no path, no upload, no stranger's model, by no door."""

import gradio as gr
import pytest

from bias_core.app.api import Tools
from bias_core.errors import Cancelled, Interrupted, InvalidInput, ModelUnavailable, StorageError, UnknownModel
from bias_core.models import model_sources
from bias_core.run.limits import TimeLimit, check_budget
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.ui.links import EXPLORE, read_link
from bias_core.ui.messages import format_error, user_errors
from bias_core.ui.templates import render

LISTED = "calibration-renderer"
ALLOWED = "friendly/*, some/exact@v1, open_clip:ViT-B-32/laion*"


def opened(tmp_path, **more):
    return Services(Settings(data_dir=tmp_path / "data", offline=True, device="cpu", **more))


@pytest.fixture
def public(tmp_path):
    return opened(tmp_path, public=True, allowed_models=ALLOWED)


@pytest.fixture
def bad(tiny_sd1, tiny_clip):
    """Names that would be models on a machine of one's own, or look like one."""
    lora = f"{LISTED}+{tiny_sd1}"
    return [
        str(tiny_sd1), str(tiny_clip), f"{tiny_clip}/../{tiny_clip.name}", "~/model", "../x",
        "assets/calibration", lora, f"{LISTED}+friendly/lora", "stranger/model", "friendly/model@0123456",
        "friendly/../../etc", "friendly/..",
        "friendly/a/b", "./friendly/a", "friendly/a\0", "some/exact", "some/exact@v2", "",
        f"open_clip:{tiny_clip}", f"open_clip:ViT-B-32/{tiny_clip}/model.safetensors",
        "open_clip:RN50/../laion",
        "open_clip:ViT-B-32/laion/../../etc/passwd", "https://example.org/x", "model.gguf", "/etc/passwd",
    ]  # fmt: skip


def test_every_door_of_a_public_server_refuses_every_such_name(public, bad):
    doors = {
        "model": public.model_info,
        "generator": public.text_to_image,
        "size": public.model_fit,
        "files": public.revision,
        "encoder": public.encoder,
        "captioner": public.captioner,
        "answerer": public.answerer,
        "language model": public.language_model,
        "finder": public.person_finder,
        "world of a reader": lambda name: public.reader_world("encoder", name),
    }
    for use in doors.values():
        for name in bad:
            with pytest.raises(UnknownModel, match="cannot be used on this server"):
                use(name)


def test_links_and_tools_refuse_them_too(public, tiny_sd1):
    link = read_link({"tab": EXPLORE, "model": str(tiny_sd1)}, {EXPLORE: ()}, public)
    assert "model" not in link.values
    for run in (
        lambda: Tools(public).explore("doctor", model=str(tiny_sd1)),
        lambda: Tools(public).explore("doctor", encoder=str(tiny_sd1)),
        lambda: Tools(public).run_study("t2iat-tests", model=str(tiny_sd1)),
        lambda: Tools(public).compare("doctor", ["condition=fair", f"model={tiny_sd1}"]),
    ):
        with pytest.raises(gr.Error, match="cannot be used on this server"):
            run()


def test_listed_and_allowed_names_are_taken_and_at_home_paths_are(public, tmp_path, tiny_sd1, tiny_clip):
    for info in public.models():
        assert public.model_info(info.id).id == info.id
    assert public.model_info("friendly/model").id == "friendly/model"
    assert public.model_info("some/exact@v1").revision == "v1"
    assert public.catalogue.tool("encoder", "open_clip:ViT-B-32/laion2b_s34b_b79k").library == "open_clip"
    home = opened(tmp_path)
    assert home.model_info(str(tiny_sd1)).id == str(tiny_sd1)
    assert home.catalogue.tool("encoder", str(tiny_clip)).path == str(tiny_clip)
    assert home.model_info("stranger/model").id == "stranger/model"


def test_without_a_list_no_hub_model_is_taken(tmp_path):
    strict = opened(tmp_path, public=True)
    for name in ("friendly/model", ""):
        with pytest.raises(UnknownModel, match="cannot be used"):
            strict.model_info(name)


@pytest.mark.parametrize(("n_gb", "words"), [(55.0, "55 GB of weights, and this server allows 20"), (0.0, "how large")])
def test_an_allowed_model_that_is_too_large_is_refused_before_it_is_fetched(public, monkeypatch, n_gb, words):
    monkeypatch.setattr(model_sources, "download_gb", lambda *_: n_gb)
    online = Services(public.settings.model_copy(update={"offline": False}))
    for use in (online.text_to_image, online.encoder):
        with pytest.raises(ModelUnavailable, match=words):
            use("friendly/model")
    online.close()


def test_a_space_is_public_and_its_settings_can_say_so(monkeypatch):
    monkeypatch.delenv("SPACE_ID", raising=False)
    assert not Settings().public
    monkeypatch.setenv("BIAS_PUBLIC", "true")
    assert Settings().public
    monkeypatch.delenv("BIAS_PUBLIC")
    monkeypatch.setenv("SPACE_ID", "me/space")
    assert Settings().public


def test_messages_of_a_public_server_name_no_path_of_it(monkeypatch):
    error = StorageError("cannot read people's answers /tmp/gradio/0a1b/answers.csv: '/srv/app/x y' is odd")
    monkeypatch.delenv("SPACE_ID", raising=False)
    monkeypatch.delenv("BIAS_PUBLIC", raising=False)
    assert format_error(error) == str(error)
    monkeypatch.setenv("SPACE_ID", "me/space")
    assert "/tmp" not in format_error(error)
    assert "/srv" not in format_error(error)
    assert "answers.csv" in format_error(error)
    for kept in ("org/name needs 1/2 of https://example.org/a/b", "give org/name@v1, 3/4"):
        assert format_error(InvalidInput(kept)) == kept


def test_the_page_names_no_environment_variable():
    limits, said = Settings(max_images=7, max_megapixel_steps=1, max_minutes=1e-9), []
    for number, steps in ((8, 0), (1, 10**7)):
        with user_errors() as problem:
            check_budget(number, limits, subject="it", advice="ask for less", n_steps=steps, pixels=1)
        said.append(problem.message)
    with pytest.raises(Interrupted, match="BIAS_MAX_MINUTES") as ended, TimeLimit(limits, lambda: False).explained():
        raise Cancelled("stopped")
    said += [format_error(ended.value), render("notes", facts_of_run=[], notes=[str(ended.value)], limits="")]
    assert [text for text in said if "BIAS_" in text or not text] == []
    assert "one run may have at most 7 here: ask for less" in said[0]


def test_code_of_a_model_s_own_is_switched_off_in_diffusers_itself():
    from diffusers.utils import constants  # read when it is imported, after bias_core.services

    assert constants.DIFFUSERS_DISABLE_REMOTE_CODE
