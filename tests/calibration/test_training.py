"""The trainings run, save what the adapters load, and go on where they were cut off."""

import json
from random import Random

import numpy as np
import pytest
import torch

from bias_core.world.render import render
from bias_core.world.scene import Person, Scene
from training import blip, clip, diffusion, language, loop, vae
from training.muon import Muon


def folders(work):
    parts = {name: work / name for name in ("vae", "clip", "pipeline", "loras")}
    return diffusion.Folders(work=work, **parts)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A compressor, a reader, a generator and one adapter, each trained for a few steps."""
    work = tmp_path_factory.mktemp("calibration")
    vae.train_vae(work, work / "vae", minutes=0.004, batch=4, held_out=8)
    clip.train_clip(work, work / "clip", minutes=0.004, batch=8, held_out=200)
    diffusion.train_base(folders(work), minutes=0.004, batch=4, pool=16)
    diffusion.train_lora("published", folders(work), minutes=0.004, batch=4, pool=16)
    return work


def test_the_pipeline_loads_draws_and_takes_the_adapter(trained):
    from diffusers import StableDiffusion3Pipeline

    pipe = StableDiffusion3Pipeline.from_pretrained(
        trained / "pipeline", text_encoder_3=None, tokenizer_3=None, torch_dtype=torch.float32
    )
    pipe.set_progress_bar_config(disable=True)

    def draw():
        generator = torch.Generator().manual_seed(0)
        return pipe(
            "a photo of a nurse", num_inference_steps=2, generator=generator,
            max_sequence_length=1, output_type="pt",
        ).images  # fmt: skip

    plain = draw()
    pipe.load_lora_weights(trained / "loras" / "published")
    assert plain.shape == (1, 3, 128, 128)
    written = [path for name in ("pipeline", "clip", "loras", "vae") for path in (trained / name).rglob("*")]
    assert max(path.stat().st_size for path in written) < 10_000_000
    assert not torch.equal(plain, draw())


def test_the_text_tower_learns_along_and_can_be_taken_anew(trained):
    reader = diffusion.text_encoder_of(trained / "clip").state_dict()
    kept = diffusion.assemble(folders(trained), "cpu").text_encoder.state_dict()
    anew = diffusion.assemble(folders(trained), "cpu", readers_words=True).text_encoder.state_dict()
    moved = [not torch.equal(kept[name], value) for name, value in reader.items()]
    assert any(moved)
    for name, value in reader.items():
        torch.testing.assert_close(anew[name], value)


def test_training_encodes_prompts_as_the_pipeline_does(trained):
    pipe = diffusion.assemble(folders(trained), "cpu")
    prompt = ["a photo of an old doctor with glasses"]
    tokens = pipe.tokenizer(prompt, padding="max_length", truncation=True, return_tensors="pt")["input_ids"]
    states, pooled = diffusion.encode_tokens(pipe.text_encoder, tokens)
    theirs, _, their_pooled, _ = pipe.encode_prompt(
        prompt, None, None, max_sequence_length=1, do_classifier_free_guidance=False
    )
    torch.testing.assert_close(states, theirs)
    torch.testing.assert_close(pooled, their_pooled)


def test_the_reader_records_its_errors(trained):
    errors = json.loads((trained / "clip" / "reader.json").read_text())
    assert len(errors) > 10
    for record in errors:
        assert 0 <= record["sensitivity"] <= 1
        assert record["n_positive"] >= 20
    with np.load(trained / "clip" / "held_out.npz") as held_out:
        assert held_out["image_embeddings"].shape == (200, 128)


def test_new_words_keep_the_ids_of_the_old_ones(trained):
    known = clip.word_ids()
    del known["zinnia"]
    again = clip.word_ids(known)
    assert {w: i for w, i in again.items() if w in known} == {w: i for w, i in known.items() if w in again}
    assert "zinnia" in again
    assert len(set(again.values())) == len(again)


def test_muon_takes_the_step_of_torchs_muon():
    torch.manual_seed(0)
    start, slope = torch.randn(7, 5), torch.randn(7, 5)
    ours, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    one = Muon([ours], lr=0.1)
    other = torch.optim.Muon([theirs], lr=0.1, weight_decay=0.01, momentum=0.95, adjust_lr_fn="match_rms_adamw")
    for _ in range(3):
        ours.grad, theirs.grad = slope.clone(), slope.clone()
        one.step()
        other.step()
    torch.testing.assert_close(ours, theirs, atol=2e-3, rtol=0)  # theirs works in bfloat16


def test_training_goes_on_where_it_was_cut_off(tmp_path):
    def run(minutes):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1)
        average = loop.train(
            model, lambda _step: model(torch.ones(1, 2)).square().sum(), name="line",
            checkpoint=tmp_path / "line.pt", minutes=minutes, lr=0.1, muon=lambda name: name == "weight",
        )  # fmt: skip
        return average.steps

    first = run(0.005)
    assert run(0.01) > first
    saved = torch.load(tmp_path / "line.pt", weights_only=True)
    assert saved["spent"] == pytest.approx(0.6, abs=0.01)


def test_the_language_model_speaks_the_world(tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    language.train_language_model(tmp_path, tmp_path / "language", minutes=0.005, batch=8)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "language")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "language")
    tokens = tokenizer("This is a photo of", return_tensors="pt")
    assert model(input_ids=tokens["input_ids"]).logits.shape[-1] == len(tokenizer)
    assert tokenizer.unk_token_id not in tokens["input_ids"]


def test_a_person_cut_out_of_a_pair_fills_the_picture():
    pair = render(Scene(people=(Person(gender="masculine"), Person())))
    assert clip.crop_person(pair, 0).size == pair.size
    assert clip.crop_person(pair, 0).tobytes() != clip.crop_person(pair, 1).tobytes()


def test_batches_are_seeded():
    one, other = clip.draw_batch(Random(0), 4), clip.draw_batch(Random(0), 4)
    assert one[0] == other[0]


def test_a_question_is_about_the_person_who_stands_where_it_says():
    scene = Scene(people=(Person(gender="masculine", age="old"), Person(gender="feminine", age="young")))
    told = {told for seed in range(40) for told in blip.questions(scene, Random(seed))}
    for where, gender, who in (("left", "male", "an old"), ("right", "female", "a young")):
        answers = {answer for question, answer in told if f"on the {where} " in question and "gender" in question}
        assert answers == {gender}
        shown = {answer for question, answer in told if question == f"Who is on the {where} in the picture?"}
        assert all(answer.startswith(who) for answer in shown)
        assert shown
    assert len(blip.questions(scene, Random(0))) == 2
    assert blip.questions(Scene(setting="street"), Random(0)) == []
    one = Scene(people=scene.people[:1])
    alone = {question for seed in range(40) for question, _ in blip.questions(one, Random(seed))}
    assert not any("left" in question or "right" in question for question in alone)


def test_captioner_and_answerer_load_and_speak(tmp_path):
    from PIL import Image
    from transformers import BlipForConditionalGeneration, BlipForQuestionAnswering, BlipProcessor

    blip.train_captioner(tmp_path, tmp_path / "captioner", minutes=0.005, batch=4)
    blip.train_answerer(tmp_path, tmp_path / "answerer", captioner=tmp_path / "captioner", minutes=0.005, batch=4)
    picture = Image.new("RGB", (64, 64))
    processor = BlipProcessor.from_pretrained(tmp_path / "captioner")
    captioner = BlipForConditionalGeneration.from_pretrained(tmp_path / "captioner", dtype=torch.float32)
    pixels = processor(images=picture, return_tensors="pt")
    said = captioner.generate(**pixels, max_new_tokens=8)
    assert isinstance(processor.decode(said[0], skip_special_tokens=True), str)
    answerer = BlipForQuestionAnswering.from_pretrained(tmp_path / "answerer", dtype=torch.float32)
    asked = processor(images=picture, text="What gender is the person in the picture?", return_tensors="pt")
    asked.pop("token_type_ids", None)
    assert answerer.generate(**asked, max_new_tokens=4).shape[0] == 1
