"""Texts that chat models answer, without what they think aloud."""

import re
from collections.abc import Mapping
from typing import Any

_NAMES = r"(?:seed:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad)"
_OPENS = rf"(?:[<◁]\|?{_NAMES}\b[^<>◁▷\n]*[>▷]|(?-i:\[THINK\])|[<]details[^<>]*\breasoning\b[^<>]*>|<\|channel>thought)"
_CLOSES = rf"(?:[<◁]\|?/{_NAMES}\|?[>▷]|(?-i:\[/THINK\])|[<]/details>|<channel\|>)"
_ANYTHING = re.DOTALL | re.IGNORECASE
_THOUGHT = re.compile(rf"{_OPENS}.*?{_CLOSES}", _ANYTHING)
_END_OF_THOUGHT = re.compile(rf"^.*{_CLOSES}", _ANYTHING)  # some templates begin the thought themselves
_CUT_THOUGHT = re.compile(rf"{_OPENS}.*$", _ANYTHING)
_OPEN_AT_END = re.compile(rf"{_OPENS}\s*$", re.IGNORECASE)
# gpt-oss answers in a channel of its own; where special tokens are left out, only the names of channels stay.
_CHANNELS = re.compile(r"<\|channel\|>(?!final)")
_FINAL = re.compile(r"^.*<\|channel\|>final.*?<\|message\|>|^analysis.*assistantfinal", re.DOTALL)
_AROUND = re.compile(
    r"[<]/?(?:answer|response|output|final)[>]|<\|(?:begin|end)_of_box\|>|<\|(?:end|return|im_end)\|>", re.IGNORECASE
)


def without_thoughts(text: str) -> str:
    r"""The answer in a text that may think aloud first; "" where the thought is cut off.

    >>> without_thoughts("<think>The picture shows no beard.</think>\n\nYes"), without_thoughts("<think>No beard")
    ('Yes', '')
    """
    answer, n_finals = _FINAL.subn("", text)
    if not n_finals and _CHANNELS.search(text):
        return ""
    answer = _END_OF_THOUGHT.sub("", _THOUGHT.sub("", answer))
    return _AROUND.sub("", _CUT_THOUGHT.sub("", answer)).strip()


def open_thought(prompt: str) -> str:
    """The mark with which a chat template has a model begin by thinking; "" for others."""
    match = _OPEN_AT_END.search(prompt)
    return match[0] if match else ""


def read_message(message: Mapping[str, Any]) -> tuple[str, bool]:
    """The text that a server's message answers, and whether the model thought before it.

    Its content is a text, nothing, or a list of parts, of which those of text count. TypeError for another form.
    """
    content = message.get("content")
    parts = content if isinstance(content, list) else [] if content is None else [content]
    texts = [part if isinstance(part, str) else _text_of_part(part) for part in parts]
    said, thought = "".join(texts), message.get("reasoning_content") or message.get("reasoning")
    answer = without_thoughts(said)
    return answer, bool(thought) or answer != said.strip() or "" in texts


def _text_of_part(part: Any) -> str:
    if not isinstance(part, Mapping):
        raise TypeError(f"a part of an answer is {type(part).__name__}")
    text = part.get("text") if part.get("type", "text") in ("text", "output_text") else ""
    if not isinstance(text, str):
        raise TypeError("a part of an answer has no text")
    return text
