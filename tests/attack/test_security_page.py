"""The page of promises names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_every_promise_has_a_test_that_exists():
    lines = (ROOT / "docs" / "security.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.endswith("| shown by |")]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", row)
        assert named, row
        for path, test in named:
            assert f"def {test or 'test_'}" in (ROOT / path).read_text(), f"{path}::{test}"
