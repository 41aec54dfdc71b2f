"""Texts that chat models answer, without what they think aloud."""

import re
from collections.abc import Mapping
from typing import Any

_NAMES = r"(?:seed:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|analysis|scratchpad)"
_OPENS = (
    rf"(?:[<◁]\|?{_NAMES}\b[^<>◁▷\n]*[>▷]|(?-i:\[THINK\])|[<]details(?=[^<>]*\breasoning\b)[^<>]*>|<\|channel>thought)"
)
_CLOSES = rf"(?:[<◁]\|?/{_NAMES}\|?[>▷]|(?-i:\[/THINK\])|[<]/details>|<channel\|>)"
_MARK = re.compile(rf"{_OPENS}|(?P<closes>{_CLOSES})", re.IGNORECASE)
_OPEN_AT_END = re.compile(rf"{_OPENS}\s*$", re.IGNORECASE)
# gpt-oss answers in a channel of its own; where special tokens are left out, only the names of channels stay.
_MOST_SAID = 100_000  # characters
_CHANNELS = re.compile(r"<\|channel\|>(?!final)")
_FINAL, _MESSAGE, _ANALYSIS, _FINAL_PLAIN = "<|channel|>final", "<|message|>", "analysis", "assistantfinal"
_AROUND = re.compile(
    r"[<]/?(?:answer|response|output|final)[>]|<\|(?:begin|end)_of_box\|>|<\|(?:end|return|im_end)\|>", re.IGNORECASE
)


def without_thoughts(text: str) -> str:
    r"""The answer in a text that may think aloud first; "" where the thought is cut off.

    >>> without_thoughts("<think>The picture shows no beard.</think>\n\nYes"), without_thoughts("<think>No beard")
    ('Yes', '')
    """
    answer = _final_of(text)
    if answer is None:
        if _CHANNELS.search(text):
            return ""
        answer = text
    return _AROUND.sub("", _unthought(answer)).strip()


def _final_of(text: str) -> str | None:
    """What stands in the last channel for answers; None where there is none."""
    before, sign, after = text.rpartition(_MESSAGE)
    start = before.rfind(_FINAL)
    if sign and start >= 0:
        return text[text.index(_MESSAGE, start) + len(_MESSAGE) :]
    plain, sign, after = text.rpartition(_FINAL_PLAIN)
    return after if sign and plain.startswith(_ANALYSIS) else None


def _unthought(text: str) -> str:
    """The text without thoughts, be they closed, cut off, or begun before it."""
    parts, start, thinks = list[str](), 0, False
    for mark in _MARK.finditer(text):
        if mark["closes"] and not thinks:
            parts, start = [], mark.end()
        elif mark["closes"]:
            start, thinks = mark.end(), False
        elif not thinks:
            parts.append(text[start : mark.start()])
            thinks = True
    return "".join(parts) if thinks else "".join([*parts, text[start:]])


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
    if len(said) > _MOST_SAID:
        raise TypeError(f"an answer has more than {_MOST_SAID:,} characters")
    answer = without_thoughts(said)
    return answer, bool(thought) or answer != said.strip() or "" in texts


def _text_of_part(part: Any) -> str:
    if not isinstance(part, Mapping):
        raise TypeError(f"a part of an answer is {type(part).__name__}")
    text = part.get("text") if part.get("type", "text") in ("text", "output_text") else ""
    if not isinstance(text, str):
        raise TypeError("a part of an answer has no text")
    return text
