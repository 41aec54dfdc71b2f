"""Whatever a file does to its decoder stays in the reader: memory, time, network, files, secrets."""

import hashlib
import os
import pickle
import signal
import socket
import time
import zipfile
from pathlib import Path

import pytest

from bias_core.errors import Cancelled, InvalidInput, StorageError
from bias_core.store import reader
from bias_core.store.imports import ImportedImages
from bias_core.store.reader import Limits, ReaderEnded, TooMuch, limit_file, read_apart
from tests.store.test_imports import DOCTOR, NURSE, folder, picture

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a reader has limits on Linux and macOS alone")
LIMITS = Limits(memory=600_000_000, file_seconds=0.5, seconds=1.5, answer=200_000)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(reader._readers, "limits", LIMITS)
    yield
    reader._readers.end()


# What follows runs in a reader.


def take_memory():
    with limit_file("large"):
        return len(bytes(5_000_000_000))


def take_time():
    with limit_file("slow"):
        while True:
            try:
                sum(range(10_000))
            except Exception:  # noqa: BLE001 - as some decoders do
                continue


def take_time_in_c():
    with limit_file("fine"):
        pass
    with limit_file("stuck"):
        return hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # is not interrupted


def end_itself():
    with limit_file("broken"):
        os.abort()


def take_many_times():
    said = []
    for n in range(9):
        try:
            with limit_file(f"{n}"):
                until = time.process_time() + 0.3
                while time.process_time() < until:
                    pass
        except TooMuch as error:
            said.append(f"{n}: {error}")
    return said


def say_much():
    return ["x" * 100] * 10 + [f"{n:0100}" for n in range(9000)]


def send_a_stranger():
    return signal.Signals.SIGTERM


def send_something_that_runs():
    class Run:
        def __reduce__(self):
            return os.system, ("echo ran",)

    return Run()


def connect(port):
    socket.create_connection(("127.0.0.1", port), timeout=2)


def try_to(what, path):
    try:
        {
            "write": lambda: Path(path).write_text("x"),
            "empty": lambda: os.open(path, os.O_WRONLY | os.O_TRUNC),
            "remove": Path(path).unlink,
            "rename": lambda: Path(path).rename(f"{path}2"),
            "start": lambda: os.posix_spawn("/bin/true", ["true"], {}),
            "fork": os.fork,
        }[what]()
    except OSError as error:
        raise InvalidInput(type(error).__name__) from error
    return "done"


def get_environment():
    return dict(os.environ)


def get_niceness():
    return os.nice(0)


def refuse():
    raise StorageError("in words")


# Until here.


def here(function):
    """The function as a reader finds it, whose module it imports."""
    function.__module__ = "tests.store.test_reader"
    return function


def test_a_file_that_takes_too_much_ends_in_a_sentence():
    for function, words in (
        (take_memory, "takes more memory than a file may"),
        (take_time, "takes more than 0.5 s of processor time"),
    ):
        with pytest.raises(TooMuch, match=words):
            read_apart(here(function))


@pytest.mark.parametrize(("function", "file"), [(take_time_in_c, "stuck"), (end_itself, "broken")])
def test_a_decoder_that_does_not_come_back_ends_the_reader_and_the_next_one_goes_on(function, file):
    begun = time.monotonic()
    with pytest.raises(ReaderEnded, match="takes more memory or time") as ended:
        read_apart(here(function))
    assert list(ended.value.broken) == [file]
    assert time.monotonic() - begun < 30
    assert "PATH" in read_apart(here(get_environment))


def test_all_files_of_a_call_together_have_a_limit():
    said = read_apart(here(take_many_times))
    assert said[-1] == "8: was not read: the files before it took 1.5 s of processor time"
    assert len(said) < 9  # what a module takes to be imported counts too


def test_a_reader_that_says_too_much_is_cut_short():
    with pytest.raises(InvalidInput, match=r"more names, prompts or rows than fit into 0\.2 MB: divide it"):
        read_apart(here(say_much))


@pytest.mark.parametrize("function", [send_a_stranger, send_something_that_runs])
def test_nothing_but_plain_values_is_taken_from_a_reader(function, monkeypatch):
    with pytest.raises((ReaderEnded, pickle.PicklingError)):
        read_apart(here(function))


def test_a_reader_reaches_no_network_and_changes_no_file(tmp_path):
    path = tmp_path / "kept"
    path.write_text("kept")
    with socket.create_server(("127.0.0.1", 0)) as server:
        with pytest.raises((InvalidInput, ReaderEnded)):
            read_apart(here(connect), server.getsockname()[1])
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()
    for what in ("write", "empty", "remove", "rename", "start", "fork"):
        with pytest.raises(InvalidInput, match="PermissionError"):
            read_apart(here(try_to), what, str(path))
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("kept", "kept")]


def test_no_secret_of_the_environment_is_in_a_reader(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("BIAS_JUDGE_KEY", "sk-secret")
    assert "secret" not in repr(read_apart(here(get_environment)))


def test_a_reader_of_a_server_works_where_nobody_else_does(monkeypatch):
    monkeypatch.setattr(reader._readers, "limits", reader.SHARED)
    assert read_apart(here(get_niceness)) == min(os.nice(0) + reader.SHARED.niceness, 19) > os.nice(0)


def test_errors_come_as_they_are_and_a_visitor_who_leaves_ends_the_reading():
    with pytest.raises(StorageError, match="in words"):
        read_apart(here(refuse))

    def leave(_n_read):
        raise Cancelled("left")

    begun = time.monotonic()
    with pytest.raises(Cancelled):
        read_apart(here(take_time_in_c), check=leave)
    assert time.monotonic() - begun < 5
    assert not reader._readers._idle
    assert not reader._readers._at_work.total()


def test_one_address_leaves_places_for_others():
    take = reader._readers._take_place
    assert [take("a") for _ in range(4)] == [True, True, True, False]
    assert [take("b"), take("")] == [True, True]
    assert [take("c"), take("d")] == [True, False]
    reader._readers._at_work.clear()


def test_a_picture_that_ends_the_reader_is_left_out_and_the_others_count(tmp_path, monkeypatch):
    from tests.attack.hostile_files import passes

    files = {f"{DOCTOR}/1.png": picture(1), f"{DOCTOR}/2.jpg": passes(300), f"{NURSE}/3.png": picture(3)}
    monkeypatch.setattr(reader._readers, "limits", Limits(memory=10**9, file_seconds=1, seconds=60, answer=10**6))
    found = ImportedImages(folder(tmp_path, files))
    n_read = []
    seen = found.look(n_read.append)
    assert seen.counts == {DOCTOR: 1, NURSE: 1}
    assert list(seen.left_out) == [f"{DOCTOR}/2.jpg"]
    assert max(n_read) >= 1
    found.examine()
    assert found.counts == {DOCTOR: 1, NURSE: 1}


def test_a_table_of_prompts_is_written_into_a_copy_and_nowhere_else(tmp_path):
    from bias_core.store.imports import with_table

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("1.png", picture(1))
    (tmp_path / "t.csv").write_text(f"file_name,prompt\n1.png,{NURSE}\n")
    with_table(tmp_path / "a.zip", tmp_path / "b.zip", tmp_path / "t.csv")
    assert ImportedImages(tmp_path / "b.zip").counts == {NURSE: 1}
    with pytest.raises(InvalidInput, match="PermissionError"):
        read_apart(here(try_to), "write", str(tmp_path / "t.csv"))
