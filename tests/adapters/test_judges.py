"""Judges: tiny models of the real classes, an image classifier, and a server with an answer for every case."""

import base64
import io
import math

import numpy as np
import pytest
from PIL import Image

from bias_core.adapters.endpoint import Endpoint
from bias_core.adapters.readers.judges import ClassifierJudge, EndpointJudge, TransformersJudge, first_tokens
from bias_core.errors import InvalidInput, ModelUnavailable, UnknownModel
from bias_core.models.catalogue import Catalogue, load_catalogue
from bias_core.protocols import Judge
from bias_core.services import Services
from bias_core.settings import ASSETS, Settings
from tests.adapters.test_endpoint_lm import KEY, error
from tests.adapters.tiny_parts import torch
from tests.hosted_server import FakeServer

MAN = "Does this picture show a man? Answer yes, no or cannot tell."
OLD = "Is it true of this picture that the person is old? Answer yes, no or cannot tell."
ANSWERS = ["yes", "Yes", "YES", "no", "No", "NO", "cannot", "Cannot", "can"]
WORDS = ["<pad>", "<s>", "</s>", "<unk>", "<image>", "USER", "ASSISTANT", ":", "?", ".", ",", *ANSWERS]
WORDS += ["Does", "this", "picture", "show", "a", "man", "Is", "it", "true", "of", "that", "the", "person", "is", "old"]
WORDS += ["Answer", "or", "tell"]
TEMPLATE = (
    "{% for turn in messages %}USER: {% for part in turn.content %}"
    "{{ '<image>' if part.type == 'image' else part.text }} {% endfor %}{% endfor %}ASSISTANT:"
)


def save_tokenizer(folder, words=WORDS):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    plain = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, **special, extra_special_tokens={"image_token": "<image>"}
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def save_llava(folder, template=TEMPLATE):
    """A conversation model of the real class, untrained; its pictures must move its answers."""
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    tokenizer = save_tokenizer(folder)
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
    size = {"height": 32, "width": 32}
    pictures = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size=size)
    how = {"patch_size": 16, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    LlavaProcessor(pictures, tokenizer, chat_template=template, **how).save_pretrained(folder)
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
    tokenizer = save_tokenizer(tmp_path, words=("<pad>", "<s>", "</s>", "<unk>", "<image>", "yes"))
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


def said(text, tokens=None, finish="stop"):
    shown = [{"token": token, "logprob": math.log(share)} for token, share in (tokens or {}).items()]
    content = [{**shown[0], "top_logprobs": shown}] if shown else None
    choice = {"message": {"content": text}, "finish_reason": finish, "logprobs": {"content": content}}
    return 200, {"choices": [choice]}


@pytest.fixture
def ask(monkeypatch):
    """Asks a server that gives these answers; the server keeps what it was sent."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    picture = Image.new("RGB", (8, 6), "red")

    def asked(*answers, n=1):
        server = FakeServer(*answers)
        with server.running() as url:
            judge = EndpointJudge("wise", Endpoint(url=url, model="eye", key=KEY, seconds=5.0), at_once=1)
            return server, judge.judge([picture] * n, [MAN] * n)

    return asked


def test_a_server_is_sent_the_picture_and_the_question(ask):
    server, given = ask(said("Yes."))
    (sent,) = server.requests
    picture, text = sent["messages"][0]["content"]
    data = picture["image_url"]["url"].removeprefix("data:image/png;base64,")
    with Image.open(io.BytesIO(base64.b64decode(data))) as opened:
        assert (opened.size, opened.getpixel((0, 0))) == ((8, 6), (255, 0, 0))
    assert text == {"type": "text", "text": MAN}
    assert (sent["path"], sent["key"], sent["model"]) == ("/v1/chat/completions", f"Bearer {KEY}", "eye")
    assert given.tolist() == [[1, 0, 0]]


def test_the_likeliest_first_words_of_a_server_are_its_probabilities(ask):
    _, given = ask(said("Yes", {"Yes": 0.6, " yes": 0.1, "No": 0.2, "Cannot": 0.05, "can": 0.03, "The": 0.02}))
    assert given[0] == pytest.approx(np.array([0.7, 0.2, 0.08]) / 0.98)
    _, given = ask(said("**No**, he is young", {"**": 0.9, "No": 0.1}))  # the first token says nothing yet
    assert given[0].tolist() == [0, 1, 0]


def test_a_text_answers_by_its_first_word_that_does(ask):
    answers = {
        "No.": 1, "yes, there is": 0, "I cannot tell.": 2, "I can’t say no": 2, "I know nothing": 2,
        "Unclear: no face": 2, "": 2,
    }  # fmt: skip
    _, given = ask(*map(said, answers), n=len(answers))
    assert dict(zip(answers, given.argmax(axis=1).tolist(), strict=True)) == answers


def test_a_server_that_shows_no_probabilities_is_asked_without_them(ask):
    server, given = ask(error(400, "logprobs are not available for this model"), said("No"), n=2)
    assert given.tolist() == [[0, 1, 0]] * 2
    assert ["logprobs" in sent for sent in server.requests] == [True, False, False]


def test_a_refusal_is_no_answer_and_other_errors_are_said(ask):
    refused = 400, {"error": {"message": "flagged", "code": "content_policy_violation"}}
    assert ask(refused)[1].tolist() == [[0, 0, 1]]
    with pytest.raises(ModelUnavailable, match="check BIAS_LLM_KEY") as caught:
        ask(error(401, f"bad key {KEY}"))
    assert KEY not in str(caught.value)
    with pytest.raises(ModelUnavailable, match="thinks aloud"):
        ask(said("", finish="length"))
    with pytest.raises(ModelUnavailable, match="no OpenAI-compatible server"):
        ask((200, {"choices": []}))


def test_a_server_of_the_settings_is_the_judge_endpoint(tmp_path):
    settings = Settings(data_dir=tmp_path, judge_url="http://h:1", judge_model="eye", judge_key=KEY, offline=True)
    services = Services(settings)
    judge = services.judge("endpoint")
    assert (judge.endpoint.model, judge.endpoint.settings) == ("eye", "BIAS_JUDGE")
    assert KEY not in repr(judge.endpoint) + repr(settings)
    assert services.reader_facts("judge", "endpoint").name == "eye"
    with pytest.raises(UnknownModel, match="no language model 'endpoint'"):
        services.language_model("endpoint")
    services.close()
