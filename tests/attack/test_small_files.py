"""A small file takes little memory, whatever it says that it holds, and ends in a sentence."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attack.bad_inputs import sentence_fault

ROOT = Path(__file__).parents[2]
MOST = 100  # megabytes of growth
READ = {"picture, EXIF's directory", "picture, several pictures' directory", "picture, frames"}  # all the same


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is counted as Linux does")
def test_no_small_file_takes_much_memory(tmp_path):
    asked = [sys.executable, "-W", "ignore", "-m", "tests.attack.hostile_files", str(tmp_path)]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300).stdout
    lines = [json.loads(line) for line in told.splitlines()]
    assert len(lines) > 40
    assert {name: n for name, n, _ in lines if n > MOST} == {}
    assert {name: fault for name, _, what in lines if (fault := sentence_fault(what))} == {}
    taken_whole = {name for name, _, what in lines if what.startswith("1 pictures were read; [] []")}
    assert taken_whole <= READ
