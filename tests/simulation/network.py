"""A network that loses, delays, duplicates and reorders messages, one way or both, and loses replies.

Every call is a request and a reply, each travelling alone: the request may be lost, arrive twice, or arrive
after a later one; the reply may be lost although the request was carried out. A cut is one-way, by pair. A
receiver that was restarted never sees what was sent to its earlier life as if it were new: the message
carries the generation of the connection that it was sent on, as a TCP connection would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from tests.simulation.events import Events, Timer

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
    sent: int = 0
    lost: int = 0
    _generation: int = 0
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

    def _travel(self, message: Message, arrive: Callable[[], None]) -> None:
        """One message, one way: nothing, one arrival or two."""
        self.sent += 1
        if any(intercept(message, arrive) for intercept in self.interceptors):
            return
        copies = 1
        if self.options.loss_rate and self.random.random() < self.options.loss_rate:
            copies = 0
        elif self.options.duplicate_rate and self.random.random() < self.options.duplicate_rate:
            copies = 2
        if (message.source, message.target) in self.cuts:
            copies = 0
        self.lost += copies == 0
        for _ in range(copies):
            self.events.after(self._delay_ms(), arrive)

    def call(
        self,
        source: str,
        target: str,
        request: Any,
        on_reply: Callable[[Any], None],
        *,
        timeout_ms: float,
        on_timeout: Callable[[], None],
    ) -> Timer:
        """Send `request`; exactly one of `on_reply` and `on_timeout` is called.

        A caller that dies ignores both by checking its own liveness. A target that is not listening answers
        nothing: to the caller a refused connection and a lost request are both "unknown" here; the listener
        probe has its own, truthful way (`is_listening`).
        """
        done = False
        endpoint = self.endpoints.get(target)
        generation = endpoint.generation if endpoint is not None else -1

        def expire() -> None:
            nonlocal done
            if not done:
                done = True
                on_timeout()

        timer = self.events.after(timeout_ms, expire)

        def deliver_reply(reply: Any) -> None:
            nonlocal done
            if not done:
                done = True
                timer.cancel()
                on_reply(reply)

        def deliver_request() -> None:
            current = self.endpoints.get(target)
            if current is None or current.generation != generation:
                return

            def answer(reply: Any) -> None:
                self._travel(Message(target, source, reply, is_reply=True), lambda: deliver_reply(reply))

            current.handler(source, request, answer)

        if endpoint is not None:
            self._travel(Message(source, target, request, is_reply=False), deliver_request)
        return timer
