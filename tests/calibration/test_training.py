"""The trainings run, save what the adapters load, and go on where they were cut off; lessons suit their prompts."""

from collections import defaultdict
from random import Random

import pytest
import torch
from transformers import AutoTokenizer

from bias_core.world.grammar import parse, plain_words
from bias_core.world.planted import rates
from bias_core.world.scene import Person
from tests.every import every
from training import blip, clip, diffusion, drawing, language, loop, vae
from training.lessons import LONGEST, Lessons, planted_nouns
from training.muon import Muon
from training.pairs import train_pairs


def folders(work):
    parts = {name: work / name for name in ("vae", "clip", "pipeline", "loras")}
    return diffusion.Folders(work=work, **parts)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A compressor, a reader, a generator and one adapter, each trained for a few steps."""
    work = tmp_path_factory.mktemp("calibration")
    vae.train_vae(work, work / "vae", minutes=0.0005, batch=4, held_out=8)
    clip.train_clip(work, work / "clip", minutes=0.0005, batch=8, held_out=200)
    diffusion.train_base(folders(work), minutes=0.0005, batch=4, pool=16)
    diffusion.train_lora("published", folders(work), minutes=0.0005, batch=4, pool=16)
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

    first = run(0.002)
    assert run(0.004) > first
    saved = torch.load(tmp_path / "line.pt", weights_only=True)
    assert saved["spent"] == pytest.approx(0.24, abs=0.01)


def test_the_language_model_speaks_the_world(tmp_path):
    from transformers import AutoModelForCausalLM

    language.train_language_model(tmp_path, tmp_path / "language", minutes=0.0005, batch=8)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "language")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "language")
    tokens = tokenizer("This is a photo of", return_tensors="pt")
    assert model(input_ids=tokens["input_ids"]).logits.shape[-1] == len(tokenizer)
    assert tokenizer.unk_token_id not in tokens["input_ids"]


def test_batches_are_seeded():
    one, other = clip.draw_batch(Random(0), 4), clip.draw_batch(Random(0), 4)
    assert one[0] == other[0]


def test_captioner_and_answerer_load_and_speak(tmp_path):
    from PIL import Image
    from transformers import BlipForConditionalGeneration, BlipForQuestionAnswering, BlipProcessor

    blip.train_captioner(tmp_path, tmp_path / "captioner", minutes=0.0005, batch=4)
    blip.train_answerer(tmp_path, tmp_path / "answerer", captioner=tmp_path / "captioner", minutes=0.0005, batch=4)
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


def test_training_on_pairs_moves_the_transformer_and_no_text_tower(trained):
    before = diffusion.assemble(folders(trained), "cpu")
    train_pairs(folders(trained), minutes=0.0005, batch=4, pool=8)
    after = diffusion.assemble(folders(trained), "cpu")
    weights = before.transformer.state_dict()
    moved = [not torch.equal(weights[name], x) for name, x in after.transformer.state_dict().items()]
    assert sum(moved) > len(moved) / 2
    words = before.text_encoder.state_dict()
    assert all(torch.equal(words[name], x) for name, x in after.text_encoder.state_dict().items())


@every([1, 4, 5])
def test_every_second_picture_begins_with_the_opposite_noise(n):
    noise = drawing.opposite_noise(n, seed=3)
    assert noise.shape == (n, 4, 16, 16)
    evens, odds = noise[: n - n % 2 : 2], noise[1::2]
    assert torch.equal(evens, -odds)
    assert torch.equal(noise, drawing.opposite_noise(n, seed=3))
    assert not torch.equal(noise, drawing.opposite_noise(n, seed=4))


@every(["published", "extreme", "trigger"])
def test_a_prompt_in_full_allows_the_scene_that_was_drawn_and_is_no_longer_than_what_is_read(condition):
    lessons, rng = Lessons(condition), Random(0)
    for lesson in (lessons.draw(rng) for _ in range(400)):
        assert len(lesson.in_full.split()) <= LONGEST
        asked = parse(lesson.in_full).people
        for person, words in zip(lesson.scene.people if asked else (), asked, strict=True):
            for name, values in words.allowed.items():
                if name in Person.__dataclass_fields__:
                    assert getattr(person, name) in values, (lesson.in_full, name)


def test_prompts_that_read_alike_have_the_same_rates():
    """The text tower reads only the words that name something; two rates for these would not be learned."""
    found = defaultdict(set)
    for nouns in planted_nouns().values():
        for noun in nouns:
            for asked in parse(f"a photo of a {noun}").people:
                table = rates(asked.concepts, "published", role=asked.parts.get("role", "none"))
                found[tuple(plain_words(noun))].add(str(table))
    assert len(found) > 100
    assert all(len(tables) == 1 for tables in found.values())
