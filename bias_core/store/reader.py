"""The process in which files of other hands are opened: archives, pictures, metadata, tables, answers.

Whatever such a file does to a decoder, it does to this process: it has limits on memory and time, writes no file,
reaches no network, gets no secret from its environment, and is replaced when it ends. :func:`read_apart` runs a
function there and returns its result; inside, :func:`limit_file` limits each file. A result is made of plain values and
of this program's own data classes, and has a limit of its own, so that the process that asked does not grow.
"""

import atexit
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, is_dataclass
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import IO, Any, cast
from weakref import WeakSet

from bias_core.errors import BiasCoreError, InvalidInput

Check = Callable[[int], None]
"""Called between files, and while a reader is silent, with the number of pictures that it has read; may raise."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    memory: int  # bytes of its address space
    file_seconds: float  # of processor time, for one file
    seconds: float  # of processor time, for everything that a call reads
    answer: int  # bytes of a result
    niceness: int = 0  # 19: it works only where nobody else does


OWN = Limits(memory=6_000_000_000, file_seconds=20, seconds=1e9, answer=2_000_000_000)
"""Limits on one's own machine, for one's own files."""
SHARED = Limits(memory=700_000_000, file_seconds=4, seconds=120, answer=2_000_000, niceness=10)
"""Limits in a server, for what visitors upload."""
AT_ONCE, _OF_ONE = 6, 3  # readers at work, and those of one address
_KEPT = 2  # readers that wait for work
_WAIT_SECONDS = 0.02  # for a place
_LOOK_SECONDS = 0.25  # between two looks whether the visitor is still there
_SILENT_SECONDS = 600.0  # for which a reader may say nothing, as it shares the processor: it waits, or was stopped
_ORPHAN_SECONDS = 2.0  # between two looks whether the process that asked is still there
_LENGTH = struct.Struct(">Q")


ADDRESS: ContextVar[str] = ContextVar("address", default="")
"""The visitor's address of the current work, for addresses share the places; "" on this machine."""


@dataclass
class Session:
    """Calls that belong together: their reader, which remembers what it read, and the time that they took."""

    reader: Any = None
    seconds: float = 0.0  # of processor time


class TooMuch(InvalidInput):
    """A file takes more memory or time than it may."""


class ReaderEnded(TooMuch):
    """The reader ended; ``broken``: that file and others that took too much, with reasons, as far as it is known."""

    broken: Mapping[str, str] = {}


class _Readers:
    def __init__(self) -> None:
        self.limits = OWN
        atexit.register(self.end)
        self._idle: list[_Reader] = []
        self._all = WeakSet[_Reader]()
        self._at_work: Counter[str] = Counter()  # by address
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, check: Check, last: "_Reader | None") -> Iterator["_Reader"]:
        """Lend a reader, the caller's last one if it is free; one that was left in the middle of its work is ended."""
        address = ADDRESS.get()
        while not self._take_place(address):
            check(0)
            time.sleep(_WAIT_SECONDS)
        try:
            with self._lock:
                idle = [reader for reader in self._idle if reader.is_usable(self.limits)]
                unusable = [reader for reader in self._idle if reader not in idle]
                reader = last if last in idle else idle[-1] if idle else None
                self._idle = [idle_reader for idle_reader in idle if idle_reader is not reader]
            for unusable_reader in unusable:
                unusable_reader.end()
            reader = reader or _Reader(self.limits)
            self._all.add(reader)
            with ExitStack() as left:
                left.callback(reader.end)
                yield reader
                left.pop_all()
            with self._lock:
                self._idle.append(reader)
                surplus, self._idle = self._idle[:-_KEPT], self._idle[-_KEPT:]
            for surplus_reader in surplus:
                surplus_reader.end()
        finally:
            with self._lock:
                self._at_work[address] -= 1

    def _take_place(self, address: str) -> bool:
        with self._lock:
            is_free = self._at_work.total() < AT_ONCE and (not address or self._at_work[address] < _OF_ONE)
            self._at_work += Counter({address: int(is_free)})
            return is_free

    def end(self) -> None:
        """End all readers, also those at work."""
        for reader in list(self._all):
            reader.end()
        self._idle.clear()


class _Reader:
    """A reader as the process sees it that asks."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        kept = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        root = str(Path(__file__).parents[2])
        environment |= {
            "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", "")))),
            "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1",
            "ARROW_DEFAULT_MEMORY_POOL": "system",
        }  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", "-c", "from bias_core.store.reader import main; main()"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0, env=environment,
        )  # fmt: skip
        pipes = self._process.stdin, self._process.stdout
        self._requests, self._answers = (cast("IO[bytes]", pipe) for pipe in pipes)
        self._send(limits)

    def is_usable(self, limits: Limits) -> bool:
        """Return true if it lives and has these limits."""
        return self._limits == limits and self._process.poll() is None

    def ask(self, function: str, arguments: tuple[Any, ...], check: Check, session: Session) -> tuple[str, Any]:
        """Return "answer" and a function's result, or "error" and its error. ReaderEnded: the reader ended before."""
        at, n_read, before, broken = "", 0, session.seconds, dict[str, str]()
        since = self._seconds()
        try:
            self._send((function, arguments, before))
            while True:
                kind, seconds, *told = _load_plain(self._receive(partial(check, n_read)))
                session.seconds = before + seconds
                if kind != "at":
                    return kind, told[0]
                at, n_read, too_much = told
                broken |= too_much
                check(n_read)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            session.seconds = before + self._seconds() - since
            ended = ReaderEnded("takes more memory or time than a file may, or breaks its decoder")
            ended.broken = broken | ({at: str(ended)} if at else {})
            raise ended from error

    def _seconds(self) -> float:
        """Return the processor time that the reader has taken, also if it has just ended."""
        import psutil

        try:
            return float(sum(psutil.Process(self._process.pid).cpu_times()[:2]))
        except psutil.Error:
            return 0.0

    def _send(self, value: Any) -> None:
        _write(self._requests, pickle.dumps(value))

    def _receive(self, check: Callable[[], None]) -> bytes:
        silent_until = time.monotonic() + _SILENT_SECONDS
        while os.name == "posix" and not select.select([self._answers], [], [], _LOOK_SECONDS)[0]:
            check()
            if time.monotonic() > silent_until:
                raise EOFError
        return _read_message(self._answers, self._limits.answer + 1000)

    def end(self) -> None:
        self._process.kill()
        for pipe in (self._requests, self._answers):
            with suppress(OSError):
                pipe.close()
        self._process.wait()


_readers = _Readers()


def use_limits(limits: Limits) -> None:
    """Set the limits of readers from now on."""
    _readers.limits = limits


def start() -> None:
    """Start a reader, so that the first upload need not wait for it."""
    read_apart(_greet)


def read_apart(
    function: Callable[..., Any], *arguments: Any, check: Check = lambda _: None, session: Session | None = None
) -> Any:
    """Run a function of a module in a reader, and return its result.

    Parameters
    ----------
    function : of a module of this program.
    arguments : plain values.
    check : see :data:`Check`; what it raises ends the reader.
    session : of calls that share the limit of time.

    Raises
    ------
    ReaderEnded : a file took more than it may. Errors of ``function`` are raised as they are.
    """
    session = session or Session()
    with _readers.lend(check, session.reader) as reader:
        session.reader = reader
        kind, value = reader.ask(f"{function.__module__}:{function.__qualname__}", arguments, check, session)
    if kind == "error":
        raise value
    return value


def _greet() -> None:
    """Do nothing, as a reader's first work."""


def _write(pipe: IO[bytes], data: bytes) -> None:
    whole = memoryview(_LENGTH.pack(len(data)) + data)
    while whole:
        whole = whole[pipe.write(whole) :]


def _read_message(pipe: IO[bytes], max_bytes: float) -> bytes:
    """Read one message; EOFError at the end of the pipe, or if it is longer than a reader sends."""

    def exactly(n: int) -> bytes:
        data = bytearray()
        while len(data) < n:
            if not (piece := pipe.read(n - len(data))):
                raise EOFError
            data += piece
        return bytes(data)

    (length,) = _LENGTH.unpack(exactly(_LENGTH.size))
    if length > max_bytes:
        raise EOFError
    return exactly(length)


class _Plain(pickle.Unpickler):
    """Reads plain values, and data classes and errors of this program: a reader may be in a stranger's hands."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a known class; UnpicklingError for anything else."""
        if (module, name) in {("collections", "Counter"), ("pathlib", "PurePosixPath")}:
            return super().find_class(module, name)
        found = super().find_class(module, name) if module.startswith("bias_core.") else None
        if isinstance(found, type) and (is_dataclass(found) or issubclass(found, BiasCoreError)):
            return found
        raise pickle.UnpicklingError(f"a reader sent {module}.{name}")


def _load_plain(data: bytes) -> Any:
    return _Plain(BytesIO(data)).load()


# What follows runs in the reader.


class _OutOfTime(BaseException):
    """A file takes too long; no decoder may take this for an error of its own."""


class _Work:
    """One call in a reader; ``before``: seconds that the calls before it took."""

    def __init__(self, limits: Limits, answers: IO[bytes], before: float) -> None:
        self._limits, self._answers, self._since = limits, answers, time.process_time()
        self._left = limits.seconds - before
        self.n_read = 0  # pictures
        self.broken: dict[str, str] = {}  # files that took too much, and were not told yet

    @property
    def seconds(self) -> float:
        return time.process_time() - self._since

    def say(self, kind: str, *told: Any) -> None:
        """Send a message; InvalidInput if it is too long."""
        message = pickle.dumps((kind, self.seconds, *told))
        if len(message) > self._limits.answer:
            limit = f"{self._limits.answer / 1e6:,g} MB"
            raise TooMuch(f"holds more names, prompts or rows than fit into {limit}: divide it")
        _write(self._answers, message)

    def limit(self) -> None:
        """End this process if the work takes long besides its files, for example to compare them."""
        if os.name == "posix":
            import resource

            left = min(max(self._left, 0) + self._limits.file_seconds, 1e9)
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + left) + 2, resource.RLIM_INFINITY))

    @contextmanager
    def timed(self, name: str, times: int) -> Iterator[None]:
        """Raise _OutOfTime in a file that takes too long; a decoder that does not stop then ends the reader."""
        self.say("at", name, self.n_read, self.broken)
        self.broken = {}
        if self.seconds > self._left:
            raise TooMuch(f"was not read: the files before it took {self._limits.seconds:g} s of processor time")
        if os.name != "posix":
            yield
            return
        import resource

        seconds = times * self._limits.file_seconds
        before = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 2, before[1]))
        try:
            # Again and again, if a decoder has an answer to every error.
            signal.setitimer(signal.ITIMER_PROF, seconds, seconds / 4)
            yield
        except _OutOfTime:
            raise TooMuch(f"takes more than {seconds:g} s of processor time") from None
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            resource.setrlimit(resource.RLIMIT_CPU, before)


_work: _Work | None = None  # of this process, if it is a reader


@contextmanager
def limit_file(name: str, broken: Mapping[str, str] | None = None, *, times: int = 1) -> Iterator[None]:
    """Read one file within the limits of a reader, or ``times`` that time; TooMuch if it is known to take more."""
    if broken and name in broken:
        raise TooMuch(broken[name])
    try:
        try:
            with nullcontext() if _work is None else _work.timed(name, times):
                yield
        except MemoryError as error:
            raise TooMuch("takes more memory than a file may") from error
    except TooMuch as error:
        if _work is not None:
            _work.broken[name] = str(error)
        raise


def count_picture() -> None:
    """Count a picture that was read, for the progress that is shown."""
    if _work is not None:
        _work.n_read += 1


def may_write(path: Path, max_bytes: int) -> None:
    """Let this reader write one file, which its caller named, of so many bytes."""
    if os.name == "posix" and _work is not None:
        import resource

        _written.add(str(path))
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, resource.RLIM_INFINITY))


def main() -> None:
    """Answer requests until the input ends."""
    from PIL import PngImagePlugin

    global _work
    sys.dont_write_bytecode = True
    requests, answers = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    os.dup2(2, 1)  # what libraries print
    limits: Limits = pickle.loads(_read_message(requests, 1e6))
    import_module("bias_core.store.found_pictures")
    # Texts may unpack to as much as there is memory for.
    PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY = sys.maxsize
    _close_off(limits)
    while True:
        try:
            function, arguments, before = pickle.loads(_read_message(requests, 1e9))
        except EOFError:
            return
        _work = _Work(limits, answers, before)
        _work.limit()
        module, _, name = function.partition(":")
        try:
            _work.say("answer", getattr(import_module(module), name)(*arguments))
        except BiasCoreError as error:
            _work.say("error", error)
        except MemoryError:
            _work.say("error", TooMuch("takes more memory than a file may"))


def _close_off(limits: Limits) -> None:
    """Give up what no decoder needs: memory, files to write, the network, priority."""
    if os.name != "posix":
        return
    import resource

    with suppress(OSError):
        os.nice(limits.niceness)
    _leave_network()
    resource_limits = {"AS": limits.memory, "FSIZE": 0, "CORE": 0, "NOFILE": 64}
    for name, value in resource_limits.items():
        with suppress(OSError, ValueError):  # macOS has no limit of address space
            hard = resource.RLIM_INFINITY if name == "FSIZE" else value
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, hard))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing is then an OSError
    signal.signal(signal.SIGPROF, _stop_file)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asked decides
    parent = os.getppid()
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0) if os.getppid() != parent else None)
    signal.setitimer(signal.ITIMER_REAL, _ORPHAN_SECONDS, _ORPHAN_SECONDS)
    sys.addaudithook(_refuse_event)


def _leave_network() -> None:
    """Move to a network without anything, where the system allows it."""
    import ctypes

    new_user, new_network = 0x10000000, 0x40000000
    with suppress(AttributeError, OSError):
        unshare = ctypes.CDLL(None).unshare
        if unshare(new_network) and os.geteuid():  # without its rights root could not read others' files
            unshare(new_user | new_network)


def _stop_file(*_: Any) -> None:
    raise _OutOfTime


_FORBIDDEN_EVENTS = (
    "socket.", "subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.remove", "os.rename", "os.rmdir",
    "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "os.kill", "shutil.",
)  # fmt: skip
_written: set[str] = set()  # files that may be written


def _refuse_event(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse what reading never does, though a decoder's fault led to it."""
    is_writing = (
        event == "open" and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR)) and str(arguments[0]) not in _written
    )
    if is_writing or event.startswith(_FORBIDDEN_EVENTS):
        raise PermissionError(f"a reader does not {event}")
