"""A small file costs a server little memory and time, whatever it says that it holds, and ends in a sentence."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bias_core.store.reader import SHARED
from tests.attack.bad_inputs import sentence_fault
from tests.attack.hostile_files import SECONDS

ROOT = Path(__file__).parents[2]
GROWTH = 30  # megabytes of the server


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is counted as Linux does")
def test_no_small_file_takes_much_memory_or_time(tmp_path):
    asked = [sys.executable, "-W", "ignore", "-m", "tests.attack.hostile_files", str(tmp_path)]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True, timeout=400).stdout
    lines = [json.loads(line) for line in told.splitlines()]
    assert len(lines) > 60
    assert {name: grown for name, grown, *_ in lines if grown > GROWTH} == {}
    assert {name: n for name, _, n, *_ in lines if n * 1e6 > SHARED.memory} == {}
    most = 5 * SECONDS + 4
    assert {name: seconds for name, _, _, seconds, _ in lines if seconds > most and "six" not in name} == {}
    assert {name: fault for name, *_, what in lines if (fault := sentence_fault(what))} == {}
    (six,) = (what for name, *_, what in lines if "six" in name)
    assert six.startswith("1 pictures were read; [('pictures are left out'")
