"""Language models and judges behind a server, in every way in which one can fail."""

import base64
import io
import math
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest
from PIL import Image

from bias_core.errors import InvalidInput, ModelUnavailable, UnknownModel
from bias_core.models.endpoints import Endpoint, EndpointJudge, EndpointLanguageModel
from bias_core.run.attribute_scores import ask_judge
from bias_core.services import Services
from bias_core.settings import Settings
from bias_core.study.types import JudgeAnswer
from tests.hosted_server import FakeServer

KEY = "sk-very-secret-0123456789"
TOKENS = {" doctor": -0.5, " man": -1.0, "s": -2.0, " ": -0.1, "\n": -0.2, "<|endoftext|>": -0.3, "</s>": -0.4}


def chat(text, **more):
    return 200, {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"} | more]}


def next_tokens(*many, shuffled=False):
    choices = [
        {"index": i, "text": max(tokens, key=tokens.get), "logprobs": {"top_logprobs": [tokens]}}
        for i, tokens in enumerate(many)
    ]
    return 200, {"choices": choices[::-1] if shuffled else choices}


def error(status, message, headers=None):
    return status, {"error": {"message": message}}, headers or {}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def serve():
    """Starts a fake server with these answers; gives it, and a model that asks it."""
    with ExitStack() as started:

        def start(*answers, **options):
            server = FakeServer(*answers)
            url, server.pauses = started.enter_context(server.running()), []
            endpoint = Endpoint(**({"url": url, "model": "wise", "key": KEY, "seconds": 5.0} | options))
            return server, EndpointLanguageModel("wise", endpoint, sleep=server.pauses.append)

        yield start


def test_an_answer_is_asked_for_as_a_users_message(serve):
    server, model = serve(chat(" It is green.\n"))
    assert model.complete("What colour?", 30) == "It is green."
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Red?"}]}, {"type": "text", "text": "It is "}]
    for thought in (
        "<think>Red?</think>\n\nIt is green.", "Red?\n</think>It is green.", [*parts, "green."],
        "[THINK]Red?[/THINK]It is green.", "◁think▷Red? <think>◁/think▷<answer>It is green.</answer>",
        "<|channel|>analysis<|message|>Red?<|end|><|start|>assistant<|channel|>final<|message|>It is green.<|return|>",
    ):  # fmt: skip
        assert serve(chat(thought))[1].complete("What colour?", 30) == "It is green."
    (sent,) = server.requests
    assert sent == {
        "path": "/v1/chat/completions",
        "key": f"Bearer {KEY}",
        "model": "wise",
        "messages": [{"role": "user", "content": "What colour?"}],
        "max_tokens": 30,
        "temperature": 0,
    }


def test_the_address_is_taken_with_or_without_its_version(serve):
    server, model = serve(chat("x"))
    for tail, path in (("", "/v1/"), ("/v1/", "/v1/"), ("/openai/v1", "/openai/v1/")):
        EndpointLanguageModel("wise", Endpoint(url=model.endpoint.url + tail, model="wise")).complete("?", 1)
        assert server.requests[-1]["path"] == f"{path}chat/completions"
        assert server.requests[-1]["key"] is None  # no key, no header


def test_tokens_come_likeliest_first_and_what_shows_nothing_is_left_out(serve):
    server, model = serve(next_tokens(TOKENS, {" cat": -1.0, "\ufffd": -0.1, " dog": -0.2}, shuffled=True))
    assert model.propose(["a", "the"], 10) == [["a doctor", "a man", "as"], ["the dog", "the cat"]]
    (sent,) = server.requests
    assert sent["path"] == "/v1/completions"
    assert (sent["prompt"], sent["max_tokens"], sent["logprobs"]) == (["a", "the"], 1, 10)
    assert model.propose(["a", "the"], 1) == [["a doctor"], ["the dog"]]
    assert model.propose([], 5) == []
    # The other form of probabilities.
    shown = [{"token": token, "logprob": value} for token, value in TOKENS.items()]
    content = {"content": [{"token": " doctor", "logprob": -0.5, "top_logprobs": shown}]}
    _, model = serve((200, {"choices": [{"index": 0, "text": " doctor", "logprobs": content}]}))
    assert model.propose(["a"], 2) == [["a doctor", "a man"]]


def test_many_prefixes_go_in_several_requests_and_one_at_a_time_where_the_server_takes_but_one(serve):
    server, model = serve(next_tokens({" x": -1.0}), next_tokens({" y": -1.0}), next_tokens({" z": -1.0}))
    assert model.propose(["a", "b"], 3) == [["a y"], ["b z"]]
    assert [sent["prompt"] for sent in server.requests] == [["a", "b"], "a", "b"]

    def answer(request):
        return next_tokens(*({f" {prefix}": -1.0} for prefix in request["prompt"]))

    server, model = serve(answer)
    names = [f"p{i}" for i in range(70)]
    assert model.propose(names, 1) == [[f"{name} {name}"] for name in names]
    assert [len(sent["prompt"]) for sent in server.requests] == [32, 32, 6]


def test_a_server_that_shows_few_tokens_is_asked_for_fewer_from_then_on(serve):
    def answer(request):
        if request["logprobs"] > 5:
            return error(400, "Requested logprobs of 256, which is greater than max allowed: 5")
        return next_tokens(dict(list(TOKENS.items())[: request["logprobs"]]))

    server, model = serve(answer)
    assert model.propose(["a"], 256) == [["a doctor", "a man", "as"]]
    assert [sent["logprobs"] for sent in server.requests] == [256, 20, 5]
    model.propose(["a"], 256)
    assert server.requests[-1]["logprobs"] == 5
    assert len(server.requests) == 4


def test_a_server_that_only_chats_is_refused_for_stop_with_what_would_do(serve):
    for answer in (
        error(404, "Not Found"),
        error(405, "Method Not Allowed"),
        (200, {"choices": [{"index": 0, "text": " x", "logprobs": None}]}),
        (200, {"choices": [{"index": 0, "text": " x"}]}),
        error(400, "logprobs are not supported"),
    ):
        _, model = serve(answer)
        with pytest.raises(InvalidInput, match=r"StOP needs .* logprobs \(vLLM.*calibration-language, smollm2"):
            model.propose(["a"], 3)


def test_newer_models_are_asked_in_their_own_words(serve):
    def answer(request):
        if "max_tokens" in request:
            return error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        if "temperature" in request:
            return error(400, "Unsupported value: 'temperature' does not support 0 with this model.")
        return chat("yes")

    server, model = serve(answer)
    assert model.complete("?", 7) == model.complete("?", 7) == "yes"
    assert len(server.requests) == 4  # what was learned is kept
    assert server.requests[-1]["max_completion_tokens"] == 7


def test_it_waits_as_long_as_the_server_asks_and_tries_again(serve):
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    server, model = serve(
        error(429, "slow down", {"Retry-After": "7"}),
        error(503, "loading", {"Retry-After": soon}),
        error(500, "oops"),
        chat("at last"),
    )
    assert model.complete("?", 5) == "at last"
    assert server.pauses[0] == 7.0
    assert 10 < server.pauses[1] <= 20
    assert server.pauses[2] == 4.0  # 1, 2, 4 where the server does not say
    server, model = serve(error(429, "quota", {"Retry-After": "86400"}), chat("x"))
    model.complete("?", 5)
    assert server.pauses == [30.0]  # not for hours
    server, model = serve(error(429, "You exceeded your current quota"))
    with pytest.raises(ModelUnavailable, match=r"refuses \(status 429\): You exceeded your current quota"):
        model.complete("?", 5)
    assert len(server.requests) == 4


@pytest.mark.parametrize(("answer", "said"), [
    (error(401, f"Incorrect API key provided: {KEY}"), r"refuses the key \(401.*check BIAS_LLM_KEY"),
    (error(403, "Forbidden"), "BIAS_LLM_KEY"),
    (error(404, "The model `wise` does not exist"), r"has no model 'wise'.*check BIAS_LLM_MODEL"),
    (error(400, "maximum context length is 10"), "maximum context length is 10"),
    ((307, b"", {"Location": "http://127.0.0.1:1/v1"}), "set BIAS_LLM_URL to the final address"),
    ((200, b"<html>hello</html>"), "is not an OpenAI-compatible server"),
    ((200, b'{"choices": [{"mess'), "is not an OpenAI-compatible server"),
    ((200, b"\xff\xfe\x00garbage"), "is not an OpenAI-compatible server"),
    ((200, []), "is not an OpenAI-compatible server"),
    ((200, "text"), "is not an OpenAI-compatible server"),
    ((200, {"choices": []}), "answered with an empty list"),
    ((200, {"error": {"message": "Insufficient credits", "code": 402}}), r"has no credit left.*402.*Insufficient"),
    (error(403, "Your team has used all available credits"), "has no credit left"),
    (error(429, "Billing hard limit has been reached"), "or reached its limit; see its billing"),
    (chat("<think>It is gr", finish_reason="length"), "a model that thinks aloud may need more tokens"),
    (chat([{"type": "thinking", "thinking": "hm"}]), "gave an empty answer"),
    ((200, {"choices": [{"message": None}]}), "is not an OpenAI-compatible server"),
    (chat(None, finish_reason="length"), r"gave an empty answer \(finish_reason 'length'\)"),
    (chat(" \n"), "gave an empty answer"),
    ((502, b"<html><h1>Bad Gateway</h1></html>"), "Bad Gateway"),
])  # fmt: skip
def test_what_goes_wrong_is_said_with_what_to_do_and_without_the_key(serve, answer, said, caplog):
    _, model = serve(answer)
    with pytest.raises(ModelUnavailable, match=said) as raised:
        model.complete("?", 5)
    assert KEY not in str(raised.value)
    assert KEY not in caplog.text
    assert KEY not in repr(model.endpoint)


def test_a_word_in_place_of_a_key_takes_no_word_out_of_a_message(serve):
    for key in ("model", "none", "lm-studio", "1"):
        _, model = serve(error(404, "none of 1 lm-studio: the model does not exist"), key=key)
        with pytest.raises(
            ModelUnavailable, match=r"no model 'wise' \(none of 1 lm-studio: the model does not exist\)"
        ):
            model.complete("?", 5)


def test_garbage_instead_of_probabilities_is_said(serve):
    for content in (b"{", b"[]", b'{"choices": [{"logprobs": 5}]}', b'{"choices": 3}'):
        _, model = serve((200, content))
        with pytest.raises(ModelUnavailable, match="is not an OpenAI-compatible server"):
            model.propose(["a"], 3)


def test_a_slow_server_is_not_waited_for_for_ever(serve):
    def sleepy(_request):
        time.sleep(0.6)
        return chat("late")

    server, model = serve(sleepy, seconds=0.15)
    started = time.perf_counter()
    with pytest.raises(ModelUnavailable, match=r"did not answer within 0.15 s"):
        model.complete("?", 5)
    assert time.perf_counter() - started < 2
    while len(server.requests) < 2 and time.perf_counter() - started < 20:  # a busy machine reads the second one late
        time.sleep(0.01)
    assert len(server.requests) == 2


def test_a_server_that_is_not_there_is_said_without_its_password():
    with FakeServer(chat("x")).running() as url:
        port = url.rpartition(":")[2]
    endpoint = Endpoint(url=f"http://me:hush@127.0.0.1:{port}/v1", model="wise")
    model = EndpointLanguageModel("wise", endpoint, sleep=lambda _: None)
    with pytest.raises(ModelUnavailable, match=f"cannot be reached at 127.0.0.1:{port}.*check BIAS_LLM_URL") as raised:
        model.complete("?", 5)
    assert "hush" not in str(raised.value)


def settings_of(tmp_path, **options):
    return Settings(data_dir=tmp_path, offline=True, device="cpu", **options)


def test_it_is_listed_only_where_the_settings_name_it(tmp_path, monkeypatch):
    for name in ("BIAS_LLM_URL", "BIAS_LLM_MODEL", "BIAS_LLM_KEY"):
        monkeypatch.delenv(name, raising=False)
    plain = Services(settings_of(tmp_path))
    assert "endpoint" not in [tool.id for tool in plain.tools("language_model")]
    monkeypatch.setenv("BIAS_LLM_URL", "http://me:hush@127.0.0.1:1/v1")
    monkeypatch.setenv("BIAS_LLM_MODEL", "wise")
    monkeypatch.setenv("BIAS_LLM_KEY", KEY)
    configured = Services(settings_of(tmp_path))
    listed = configured.tools("language_model")[-1]
    assert (listed.id, listed.name) == ("endpoint", "wise")
    model = configured.language_model("endpoint")
    assert model.endpoint.key == KEY
    shown = repr(configured.settings) + str(configured.settings) + repr(listed)
    assert KEY not in shown + configured.settings.model_dump_json()
    assert "hush" not in shown


def test_an_address_that_is_none_is_said_when_it_is_used(tmp_path):
    for url in ("file:///etc/passwd", "127.0.0.1:8000", "http://", "http://host:nine/v1"):
        services = Services(settings_of(tmp_path, llm_url=url, llm_model="wise"))
        with pytest.raises(ModelUnavailable, match=r"BIAS_LLM_URL .* like http://127.0.0.1:8000/v1"):
            services.language_model("endpoint")


MAN = "Does this picture show a man? Answer yes, no or cannot tell."


def said(text, tokens=None, finish="stop"):
    shown = [{"token": token, "logprob": math.log(share)} for token, share in (tokens or {}).items()]
    content = [{**shown[0], "top_logprobs": shown}] if shown else None
    choice = {"message": {"content": text}, "finish_reason": finish, "logprobs": {"content": content}}
    return 200, {"choices": [choice]}


@pytest.fixture
def ask():
    """Asks a server that gives these answers; the server keeps what it was sent."""
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
    _, given = ask(said("<think>No.</think>Yes", {"No": 0.9, "Yes": 0.1}))  # the first token is a thought
    assert given[0].tolist() == [1, 0, 0]
    server, given = ask(said("<think>No be", finish="length"), said("<think>No beard</think>Yes"), n=2)
    assert given.tolist() == [[1, 0, 0]] * 2
    assert [sent["max_tokens"] for sent in server.requests] == [16, 4096, 4096]


def test_a_text_answers_by_its_last_verdict_and_one_with_both_or_none_cannot_tell(ask):
    yes, no, doubt = range(3)
    answers = {
        "No.": no, "yes, there is": yes, "I cannot tell.": doubt, "I can’t say no": doubt, "I know nothing": doubt,
        "Unclear: no face": doubt, "": doubt, "<think>No beard, no hat...</think>\n\nYes": yes,
        "<think>No beard": doubt,
        # reasons before the verdict
        "There is no beard and no hat, but a man's face. Final answer: Yes": yes, "No doubt about it: yes.": yes,
        "It has no hair. The person is smiling. No": no, "Yes, at first sight. Actually no.": no,
        "Is there a man? No.\nSo the final answer is: **No**": no, "The answer is no.": no,
        # forms
        "**Answer:** Yes": yes, '{"no_person": false, "answer": "yes"}': yes, "\\boxed{No}": no,
        "<answer>Yes</answer>": yes, "Question: yes or no? Yes": yes, "No it is a woman.": no,
        "I'd say it's a no": no,
        # both, or none
        "Yes and no.": doubt, "Maybe yes, maybe no": doubt, "It is not a man.": doubt, "Ja": doubt, "True": doubt,
        "I cannot determine whether yes applies": doubt, "Answer: cannot tell": doubt,
    }  # fmt: skip
    _, given = ask(*map(said, answers), n=len(answers))
    assert dict(zip(answers, given.argmax(axis=1).tolist(), strict=True)) == answers


def test_a_text_that_is_cut_is_asked_again_with_room_and_then_said_to_be_cut(ask):
    server, given = ask(said("The person wears a", finish="length"), said("The person wears a coat. Yes"), n=2)
    assert given.tolist() == [[1, 0, 0]] * 2
    assert [sent["max_tokens"] for sent in server.requests] == [16, 4096, 4096]
    _, given = ask(said("Yes, the person", finish="length"), said("Yes, the person wears", finish="length"))
    assert given.tolist() == [[0, 0, 1]]  # what comes later may take it back


ADDRESSES = {
    "http://host:1": ("http://host:1/v1/chat/completions", "http://host:1/v1"),
    "https://me:hush@host/openai/v1/": ("https://me:hush@host/openai/v1/chat/completions", "https://host/openai/v1"),
    "http://host/v1/chat/completions": ("http://host/v1/chat/completions", "http://host/v1"),
    "https://host/openai/deployments/x?api-version=2": (
        "https://host/openai/deployments/x/chat/completions?api-version=2", "https://host/openai/deployments/x"
    ),
    "https://host/v1/chat/completions?key=secret": (
        "https://host/v1/chat/completions?key=secret", "https://host/v1"
    ),
}  # fmt: skip


@pytest.mark.parametrize("url", ADDRESSES)
def test_an_address_may_end_in_its_service_or_a_query_and_is_stored_without_secrets(url):
    endpoint = Endpoint(url=url, model="eye")
    assert (endpoint.address("chat/completions"), endpoint.place) == ADDRESSES[url]


def test_two_servers_with_one_model_name_are_two_judges(tmp_path):
    pictures = {("picture", MAN): lambda: Image.new("RGB", (8, 6), "red")}
    for text, verdict in (("Yes", 0), ("No", 1)):
        with FakeServer(said(text)).running() as url:
            settings = Settings(data_dir=tmp_path, judge_url=url, judge_model="eye", offline=True)
            services, heard = Services(settings), list[JudgeAnswer]()
            steps = ask_judge(services, "endpoint", "asking", pictures, lambda: None, heard.extend)
            answers = result_of(steps)
            services.close()
        assert answers["picture", MAN].argmax() == verdict
        assert [(answer.verdict, answer.said) for answer in heard] == [(("yes", "no")[verdict], text)]


def result_of(steps):
    """Run to the end, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def test_an_address_where_nothing_answers_names_its_setting(ask):
    with pytest.raises(ModelUnavailable, match=r"nothing answers at http://127.0.0.1:\d+/v1: check BIAS_LLM_URL"):
        ask((404, {"detail": "Not Found"}))


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
    with pytest.raises(ModelUnavailable, match="answered with an empty list"):
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
