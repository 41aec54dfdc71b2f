"""Proof that the page with a task's consent text was read: it comes with the page, and makes one rater.

Signed with what the store keeps of the task's owner, so that every process that serves the task knows it and
nothing is kept of who read. The rater's code is made from it: a request to join that is sent again, because
its answer was lost, finds the same rater.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from bias_core.errors import NotAllowed

VALID_HOURS = 24
_PASS = re.compile(r"([0-9a-f]{1,12})\.([A-Za-z0-9_-]{16})\.([0-9a-f]{32})")


def new_pass(secret: str, now_ms: int) -> str:
    """A pass of the task with this secret, for one rater."""
    text = f"{now_ms:x}.{secrets.token_urlsafe(12)}"
    return f"{text}.{_signature(secret, text)}"


def checked_pass(secret: str, given: str, now_ms: int) -> str:
    """``given`` where it is such a pass and of the last day; NotAllowed says what to do."""
    found = _PASS.fullmatch(given)
    if found is not None:
        when, nonce, signature = found.groups()
        is_ours = hmac.compare_digest(signature, _signature(secret, f"{when}.{nonce}"))
        if is_ours and 0 <= now_ms - int(when, 16) < VALID_HOURS * 3_600_000:
            return given
    raise NotAllowed(
        "who joins has read the task's page within the last day: open the link again, read, and press Start"
    )


def code_number(secret: str, page_pass: str) -> int:
    """256 bits that nobody knows without the pass and the secret, for the code of its rater."""
    return int.from_bytes(_digest(secret, f"code {page_pass}"), "big")


def _signature(secret: str, text: str) -> str:
    return _digest(secret, f"page {text}").hex()[:32]


def _digest(secret: str, text: str) -> bytes:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest()
