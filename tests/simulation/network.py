"""A network that loses, delays, duplicates and reorders messages, one way or both, and loses replies.

Every call is a request and a reply, each travelling alone: the request may be lost, arrive twice, or arrive
after a later one; the reply may be lost although the request was carried out. A cut is one-way, by pair. A
receiver that was restarted never sees what was sent to its earlier life as if it were new: the message
carries the generation of the connection that it was sent on, as a TCP connection would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, NamedTuple

from tests.simulation.events import MS, Events, Timer


class Unreadable(ValueError):
    """The receiver of a message can't read it."""


Handler = Callable[[str, Any, Callable[[Any], None]], None]


class Message(NamedTuple):
    """One request or one reply, one way."""

    source: str
    target: str
    content: Any
    is_reply: bool


#: Looks at a message that sets out, with the call that delivers it. True: the interceptor has taken it, and
#: it arrives when, as often as and if that call is made. False: it travels like any other.
Interceptor = Callable[[Message, Callable[[], None]], bool]


@dataclass(slots=True)
class NetworkOptions:
    delay_ms: tuple[float, float] = (0.05, 2.0)
    slow_delay_ms: float = 400.0
    slow_rate: float = 0.0
    loss_rate: float = 0.0
    duplicate_rate: float = 0.0


@dataclass(slots=True)
class Endpoint:
    handler: Handler
    generation: int


@dataclass(slots=True)
class Network:
    events: Events
    random: Random
    options: NetworkOptions
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    #: Pairs whose messages are lost one way, with the number of faults that cut each.
    cuts: dict[tuple[str, str], int] = field(default_factory=dict)
    interceptors: list[Interceptor] = field(default_factory=list)
    #: Makes of a message what its receiver, by name, reads. Raises Unreadable: it is as good as lost.
    crossing: Callable[[str, Any], Any] | None = None
    sent: int = 0
    lost: int = 0
    _generation: int = 0
    #: When the last message of each connection arrives; -1: one was lost.
    _connections: dict[tuple[object, str], int] = field(default_factory=dict)
    _weather: list[NetworkOptions] = field(default_factory=list)

    def listen(self, name: str, handler: Handler) -> None:
        self._generation += 1
        self.endpoints[name] = Endpoint(handler, self._generation)

    def close(self, name: str) -> None:
        self.endpoints.pop(name, None)

    def is_listening(self, name: str) -> bool:
        return name in self.endpoints

    def cut(self, source: str, target: str) -> None:
        self.cuts[(source, target)] = self.cuts.get((source, target), 0) + 1

    def mend(self, source: str, target: str) -> None:
        """Take one cut back; the pair talks again when all are."""
        left = self.cuts.pop((source, target)) - 1
        if left:
            self.cuts[(source, target)] = left

    def worsen(self, weather: NetworkOptions) -> None:
        """From now on, until `calm` with the same object or another one comes on top."""
        self._weather.append(weather)
        self.options = weather

    def calm(self, weather: NetworkOptions) -> None:
        self._weather = [other for other in self._weather if other is not weather]
        self.options = self._weather[-1] if self._weather else NetworkOptions()

    def _delay_ms(self) -> float:
        low, high = self.options.delay_ms
        delay = low + (high - low) * self.random.random()
        if self.options.slow_rate and self.random.random() < self.options.slow_rate:
            delay += self.options.slow_delay_ms * self.random.random()
        return delay

    def _travel(
        self,
        way: tuple[str, str],
        content: Any,
        arrive: Callable[[], None],
        connection: object,
        *,
        is_reply: bool,
    ) -> None:
        """One message, from one end of its way to the other: nothing, one arrival or two."""
        self.sent += 1
        if self.interceptors:
            message = Message(*way, content, is_reply)
            if any(intercept(message, arrive) for intercept in self.interceptors):
                return
        options = self.options
        copies = 1
        if options.loss_rate and self.random.random() < options.loss_rate:
            copies = 0
        elif options.duplicate_rate and self.random.random() < options.duplicate_rate:
            copies = 2
        if self.cuts and way in self.cuts:
            copies = 0
        self.lost += copies == 0
        if connection is None:
            for _ in range(copies):
                self.events.after(self._delay_ms(), arrive)
            return
        # In order, or not at all: what follows a lost message on a connection is lost with it.
        place = (connection, way[1])
        earlier_ns = self._connections.get(place, 0)
        if not copies or earlier_ns < 0:
            self._connections[place] = -1
            return
        arrives_ns = max(self.events.now_ns + int(self._delay_ms() * MS), earlier_ns + 1)
        self._connections[place] = arrives_ns
        self.events.at_ns(arrives_ns, arrive)

    def call(
        self,
        source: str,
        target: str,
        request: Any,
        on_reply: Callable[[Any], None],
        *,
        timeout_ms: float,
        on_timeout: Callable[[], None],
        connection: object = None,
    ) -> Timer:
        """Send `request`; exactly one of `on_reply` and `on_timeout` is called.

        A caller that dies ignores both by checking its own liveness. A target that is not listening answers
        nothing: to the caller a refused connection and a lost request are both "unknown" here; the listener
        probe has its own, truthful way (`is_listening`). connection: the request neither overtakes an
        earlier one on the same connection nor arrives when one of them did not.
        """
        endpoint = self.endpoints.get(target)
        timer = self.events.after(timeout_ms, on_timeout)
        if endpoint is None:
            return timer
        generation = endpoint.generation

        def deliver_reply(reply: Any) -> None:
            if timer.call is not None:  # neither answered nor expired yet
                if self.crossing is not None:
                    try:
                        reply = self.crossing(source, reply)
                    except Unreadable:
                        return
                timer.call = None
                on_reply(reply)

        def answer(reply: Any) -> None:
            self._travel((target, source), reply, partial(deliver_reply, reply), None, is_reply=True)

        def deliver_request() -> None:
            current = self.endpoints.get(target)
            if current is None or current.generation != generation:
                return
            try:
                received = request if self.crossing is None else self.crossing(target, request)
            except Unreadable:
                return
            current.handler(source, received, answer)

        self._travel((source, target), request, deliver_request, connection, is_reply=False)
        return timer
