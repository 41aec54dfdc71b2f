"""The queue of runs: a few run at once, the others wait, see their place in line and can leave.

A run has its own thread, so it continues while its page is reloaded.
"""

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import closing
from contextvars import copy_context
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import count
from typing import Any, Generic, TypeVar, cast

from bias_core.errors import Cancelled, RunQueueFull
from bias_core.settings import Settings
from bias_core.waiting import StopSignal, WorkClock, handing_over, never, stoppable

T = TypeVar("T")
R = TypeVar("R")
RunStarter = Callable[[], Generator[T, None, R]]  # begins a run

_SIGN_SECONDS = 1.0  # between two updates of a waiting run
_LOOK_SECONDS = 0.1
_FOLLOW_SECONDS = 0.5  # between two looks of a follower
_TURN_SECONDS = 30.0  # length of a turn if more addresses than places share the places at work
_PATIENCE_SECONDS = 600.0  # for which a run continues after its visitor left a public server


@dataclass(frozen=True, kw_only=True)
class Requester:
    """The visitor or program that asks for a run."""

    name: str  # of a visitor, or of all programs at one address; at most one run of a name is at work
    address: str = ""  # network address of the request, "" if addresses mean nothing
    places: int = 1  # runs of this name that may wait; with one, a newer run replaces an older one


@dataclass(frozen=True, kw_only=True)
class QueuePlace:
    """A place in line."""

    n_before: int  # runs that are at work or come first
    begun: bool = False  # it was at work, and is paused


@dataclass(eq=False, kw_only=True)
class _Ticket:
    requester: Requester
    admitted: bool = False
    replaced: bool = False
    admitted_at: float = 0.0
    paused: bool = False  # True once it was paused, so it has begun
    last_place: list[int] = field(default_factory=list)


class RunAtWork(Generic[T, R]):
    """A run that can be followed, left, and followed again; followers see its newest step.

    Parameters
    ----------
    steps : of the run, called in its thread.
    stop : set to end it.
    place : page on which its visitor started it, "" if it is not looked for again.
    patience : seconds for which it goes on while it is not followed.
    """

    def __init__(
        self, steps: RunStarter[T, R], stop: threading.Event, *, place: str = "", patience: float = math.inf
    ) -> None:
        self.place, self.stop = place, stop
        self._patience = patience
        self._changed = threading.Condition()
        self._n_steps, self._n_followers = 0, 0
        self._step: T | None = None
        self._result: Future[R] = Future()
        self._given_up: threading.Timer | None = None
        threading.Thread(target=copy_context().run, args=(self._work, steps), daemon=True, name="bias-run").start()

    @property
    def ended(self) -> bool:
        """True if the run is over."""
        return self._result.done()

    def follow(self) -> Generator[T, None, R]:
        """Yield the newest steps; return the result of the run, or raise its error."""
        n_seen = 0
        self._count_followers(1)
        try:
            while True:
                with self._changed:
                    while self._n_steps == n_seen and not self.ended:
                        self._changed.wait(_FOLLOW_SECONDS)
                    if self._n_steps == n_seen:
                        break
                    n_seen, step = self._n_steps, cast("T", self._step)
                yield step
        finally:
            self._count_followers(-1)
        return self._result.result()

    def _count_followers(self, change: int) -> None:
        """Count followers that come or go; after the last has left, the run ends when patience runs out."""
        with self._changed:
            self._n_followers += change
            if self._given_up is not None:
                self._given_up.cancel()
            if not (self._n_followers or self.ended or math.isinf(self._patience)):
                self._given_up = threading.Timer(self._patience, self._give_up)
                self._given_up.daemon = True
                self._given_up.start()

    def _give_up(self) -> None:
        with self._changed:
            if not self._n_followers:
                self.stop.set()

    def _work(self, steps: RunStarter[T, R]) -> None:
        def whole() -> Generator[T, None, None]:
            self._result.set_result((yield from steps()))

        with handing_over(self._result):
            for step in whole():
                with self._changed:
                    self._step = step
                    self._n_steps += 1
                    self._changed.notify_all()
        with self._changed:
            if self._given_up is not None:
                self._given_up.cancel()
            self._changed.notify_all()


class RunQueue:
    """A queue in which the address with the fewest runs at work and the longest pause is next.

    A run is paused after its next step, keeps its results and continues when it is its turn again, if a run waits from
    an address with at least two runs fewer at work, or with none at work and either for its first turn, or after a
    turn of half a minute. New addresses pass over those that wait for another turn only once in a row.

    Parameters
    ----------
    at_once : runs at work together; they take turns at the models.
    waiting : places in line.
    of_one_address : places that one address may take, so that others find one.
    patience : seconds for which a run goes on after its page was left.
    """

    def __init__(
        self, at_once: int, waiting: int, of_one_address: int | None = None, patience: float = math.inf
    ) -> None:
        self._at_once, self._most, self._of_one_address = at_once, waiting, of_one_address or waiting
        self._changed = threading.Condition()
        self._at_work: list[_Ticket] = []
        self._waiting: list[_Ticket] = []
        self._last: dict[str, int] = {}  # last turn of a name or an address
        self._passed_over = False  # True if the last turn was a new address's, while others waited for another turn
        self._clock = count(1)
        self._patience = patience
        self._begun: dict[str, RunAtWork[Any, Any]] = {}  # by name, the newest

    @classmethod
    def from_settings(cls, settings: Settings) -> "RunQueue":
        """Return a queue for the settings; a public server has less patience, and gives an address half the places."""
        if not settings.public:
            return cls(settings.runs_at_once, settings.runs_waiting)
        return cls(settings.runs_at_once, settings.runs_waiting, max(1, settings.runs_waiting // 2), _PATIENCE_SECONDS)

    def begin(
        self, steps: RunStarter[T, R], requester: Requester, stop: threading.Event, place: str = ""
    ) -> RunAtWork[T | QueuePlace, R]:
        """Start :meth:`run` in its own thread, so that it continues while the page is reloaded.

        ``stop`` is set to end it. ``place`` is the page that looks for it again (:meth:`find`); with "" it ends when it
        is left.
        """
        patience = self._patience if place else 0.0
        run = RunAtWork(lambda: self.run(steps, requester, stop.is_set), stop, place=place, patience=patience)
        with self._changed:
            self._begun = {name: run for name, run in self._begun.items() if not run.ended}
            self._begun[requester.name] = run
        return run

    def find(self, name: str) -> RunAtWork[Any, Any] | None:
        """Return the newest run of this name that is at work or waits, or None."""
        run = self._begun.get(name)
        return None if run is None or run.ended else run

    def run(
        self, steps: RunStarter[T, R], requester: Requester, cancelled: StopSignal = never
    ) -> Generator[T | QueuePlace, None, R]:
        """Yield the steps of a run once it is its turn; before that, and while paused, its place in line each second.

        Raises RunQueueFull at once if the line is full, Cancelled if it was stopped or a newer run of the visitor took
        its place.
        """
        ticket, clock = self._join(requester), WorkClock()
        try:
            yield from self._places(ticket, cancelled)
            work: Generator[T, None, R] = stoppable(steps(), cancelled, clock)
            with closing(work):
                while True:
                    try:
                        step = next(work)
                    except StopIteration as stop:
                        return cast("R", stop.value)
                    yield step
                    if self._gives_way(ticket):
                        with clock.paused():
                            yield from self._places(ticket, cancelled)
        finally:
            with self._changed:
                for line in (self._at_work, self._waiting):
                    if ticket in line:
                        line.remove(ticket)
                self._admit()
                self._changed.notify_all()

    def _join(self, requester: Requester) -> _Ticket:
        ticket = _Ticket(requester=requester)
        with self._changed:
            own_tickets = [
                other_ticket
                for other_ticket in self._waiting
                if other_ticket.requester.name == requester.name and not other_ticket.paused
            ]
            if own_tickets and requester.places == 1:
                own_tickets[0].replaced = True
                self._waiting.remove(own_tickets[0])
            elif len(own_tickets) >= requester.places:
                raise RunQueueFull(
                    f"{len(own_tickets)} runs from your address are waiting already; ask for more once they are done"
                )
            self._waiting.append(ticket)
            self._admit()
            n_from_address = sum(other_ticket.requester.address == requester.address for other_ticket in self._waiting)
            n = len(self._waiting) - 1
            if not ticket.admitted and (n >= self._most or n_from_address > self._of_one_address):
                self._waiting.remove(ticket)
                raise RunQueueFull(
                    f"{n} runs are waiting already, and there is no place for more; try again in a few minutes. "
                    "What you filled in is still there"
                )
            self._changed.notify_all()
        return ticket

    def _places(self, ticket: _Ticket, cancelled: StopSignal) -> Generator[QueuePlace, None, None]:
        """Yield the place in line until it is the run's turn."""
        while (before := self._wait(ticket, cancelled)) is not None:
            yield QueuePlace(n_before=before, begun=ticket.paused)

    def _wait(self, ticket: _Ticket, cancelled: StopSignal) -> int | None:
        """Wait a second; return the number of runs before this one, or None if it is its turn."""
        with self._changed:
            for _ in range(round(_SIGN_SECONDS / _LOOK_SECONDS)):
                if ticket.replaced:
                    raise Cancelled("a newer run of yours took the place of this one, which had not begun")
                if cancelled():
                    if ticket.paused:  # it ends itself, and reports its results
                        return None
                    raise Cancelled("stopped before it began; nothing was drawn")
                if ticket.admitted:
                    return None
                before = len(self._at_work) + sorted(self._waiting, key=self._order).index(ticket)
                if ticket.last_place != [before]:  # reported at once when it changes
                    ticket.last_place = [before]
                    return before
                self._changed.wait(_LOOK_SECONDS)
            return before

    def _gives_way(self, ticket: _Ticket) -> bool:
        """Pause a run between two steps if another has more right to its place; return True if it was paused."""
        with self._changed:
            if ticket not in self._at_work or (first := self._next()) is None or not self._is_unfair(ticket, first):
                return False
            self._at_work.remove(ticket)
            self._begin_turn(first)
            self._waiting.append(ticket)
            ticket.admitted, ticket.paused, ticket.last_place = False, True, []
            self._changed.notify_all()
            return True

    def _is_unfair(self, ticket: _Ticket, first: _Ticket) -> bool:
        """Return True if the first in line has more right to the run's place, at its address or in its turn."""
        own_address, first_address = ticket.requester.address, first.requester.address
        if own_address == first_address:  # also without addresses: a visitor has at most one run at work
            return False
        at_work = Counter(other_ticket.requester.address for other_ticket in self._at_work)
        is_over = any(map(self._is_new, self._free())) or time.monotonic() - ticket.admitted_at >= _TURN_SECONDS
        return at_work[own_address] >= at_work[first_address] + 2 or (is_over and not at_work[first_address])

    def _is_new(self, ticket: _Ticket) -> bool:
        """Return True if the ticket's address has had no turn."""
        return f"address {ticket.requester.address}" not in self._last

    def _free(self) -> list[_Ticket]:
        """Return the waiting tickets of names that have no run at work."""
        busy = {ticket.requester.name for ticket in self._at_work}
        return [ticket for ticket in self._waiting if ticket.requester.name not in busy]

    def _next(self) -> _Ticket | None:
        return min(self._free(), key=self._order, default=None)

    def _admit(self) -> None:
        while len(self._at_work) < self._at_once and (chosen := self._next()) is not None:
            self._begin_turn(chosen)
        if not self._at_work and not self._waiting:
            self._last.clear()

    def _begin_turn(self, ticket: _Ticket) -> None:
        ticket.admitted, ticket.admitted_at = True, time.monotonic()
        self._waiting.remove(ticket)
        self._at_work.append(ticket)
        self._passed_over = self._is_new(ticket) and any(other_ticket.paused for other_ticket in self._waiting)
        now, requester = next(self._clock), ticket.requester
        self._last |= {f"name {requester.name}": now, f"address {requester.address}": now}

    def _order(self, ticket: _Ticket) -> tuple[int, bool, int, bool, int]:
        """Return the sort key of a ticket; ties keep their order. At one address, paused runs come first."""
        requester = ticket.requester
        n_at_work = sum(other_ticket.requester.address == requester.address for other_ticket in self._at_work)
        of_address, of_name = (
            self._last.get(f"address {requester.address}", 0),
            self._last.get(f"name {requester.name}", 0),
        )
        return n_at_work, self._is_new(ticket) == self._passed_over, of_address, not ticket.paused, of_name


def get_client_network(headers: Mapping[str, str], peer: str) -> str:
    """Return the address of a request, for IPv6 the network of one household; used for limits only, never stored.

    On a Space the peer is the Space's own proxy, which adds the real address to the end of ``X-Forwarded-For``; anyone
    can forge the earlier ones. Elsewhere only uvicorn trusts the header, from proxies in its ``FORWARDED_ALLOW_IPS``.

    >>> get_client_network({}, "203.0.113.7"), get_client_network({}, "2001:db8:1:2:3:4:5:6")
    ('203.0.113.7', '2001:db8:1:2::/64')
    """
    if os.environ.get("SPACE_ID"):
        lines = (text for name, text in headers.items() if name.lower() == "x-forwarded-for")  # there may be several
        named = reversed(",".join(lines).split(","))
        peer = next((name.strip() for name in named if _is_public(name.strip())), peer)
    try:
        address = ip_address(peer)
    except ValueError:
        return peer[:64]
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or ip_network((address, 64), strict=False))
    return str(address)


def _is_public(name: str) -> bool:
    try:
        return ip_address(name).is_global
    except ValueError:
        return False
