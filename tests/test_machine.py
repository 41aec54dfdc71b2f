"""What the machine has, read from its own files and tools."""

import os
import stat

import pytest

from bias_core.models import machine


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch) -> None:
    machine.this_machine.cache_clear()
    monkeypatch.setattr(machine, "_CGROUP", tmp_path / "cgroup")
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)


def _tool(folder, script: str, monkeypatch) -> None:
    folder.mkdir()
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_the_largest_gpu_counts(tmp_path, monkeypatch):
    _tool(tmp_path / "bin", "echo '8192, Small'; echo '81920, NVIDIA H100'", monkeypatch)
    found = machine.this_machine()
    assert (found.gpu, found.gpu_memory) == ("NVIDIA H100", 81920 << 20)


@pytest.mark.parametrize("script", ["exit 9", "echo No devices were found", "echo '[N/A], Odd'"])
def test_a_driver_without_a_gpu_is_no_gpu(tmp_path, monkeypatch, script: str):
    _tool(tmp_path / "bin", script, monkeypatch)
    assert machine.this_machine().gpu_memory == 0


def test_a_container_has_what_it_was_given(tmp_path):
    real = machine.this_machine().memory
    assert real > 10**8
    machine.this_machine.cache_clear()
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "memory.max").write_text("max\n")
    assert machine.this_machine().memory == real
    machine.this_machine.cache_clear()
    (tmp_path / "cgroup" / "memory.max").write_text("100000000\n")
    (tmp_path / "cgroup" / "memory.current").write_text("30000000\n")
    assert machine.this_machine().memory == 100_000_000
    assert machine.free_memory() == 70_000_000


def test_zero_gpu_is_known_by_its_variable(monkeypatch):
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    assert machine.this_machine().gpu_memory == machine.ZERO_GPU_BYTES
