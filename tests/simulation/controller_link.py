"""A simulated member at its controllers, in one life: it registers, beats, and polls the metadata stream.

The counterpart of springtide/node/controller_session.py: what is said and what an answer means is decided in
springtide/node/core/session.py, whether a controller is to be believed by `seen_after`. Whom to ask next, and
the pace, is the simulation's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from springtide.contract.errors import ControllerAnswer, ControllerError
from springtide.contract.session import (
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
    Witness,
)
from springtide.contract.updates import UpdateBatch
from springtide.node.controller_client import UNTOLD, Seen, seen_after
from springtide.node.core.session import Meaning, MemberSession, WentBackProof
from tests.simulation.process import Process

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

HEARTBEAT_TIMEOUT_MS = 900


class Beat(NamedTuple):
    """A heartbeat that is sent. true_sent_ms: by no clock of the member's. known_under: see BrokerLink."""

    request: HeartbeatRequest
    sent_ms: int
    true_sent_ms: int
    known_under: int | None = None


Answered = Meaning | WentBackProof


class ControllerLink:
    """session: this drives it. controllers: by name; the first is asked first."""

    seen: Seen = UNTOLD

    def __init__(
        self,
        process: Process,
        session: MemberSession,
        cluster: Cluster,
        random: Random,
        controllers: Sequence[str],
    ) -> None:
        self.session = session
        self._process = process
        self._cluster = cluster
        self._random = random
        self._controllers = list(controllers)

    # What a kind of member adds

    def _next_registration(self) -> RegisterRequest:
        return self.session.registration(self.witness)

    def _on_registration_answered(self, error: ControllerError | None) -> None:
        """A controller has answered; None: it has not."""

    def _on_registered(self, response: RegisterResponse, *, is_first: bool) -> None:
        """It was accepted."""

    def _next_beat(self) -> Beat | None:
        """None: it has ended."""
        return self._beat(self.session.heartbeat(self.witness))

    def _beat(self, request: HeartbeatRequest, known_under: int | None = None) -> Beat:
        process = self._process
        return Beat(request, process.clock.mono_ms, process.events.now_ms, known_under)

    def _on_heartbeat(self, beat: Beat, response: HeartbeatResponse, meaning: Answered) -> None:
        """An answer was heard, and acted upon unless it is a proof."""

    def _on_batch(self, batch: UpdateBatch) -> None:
        """The metadata stream has told something, which may be outdated."""

    def _apply(self, batch: UpdateBatch) -> bool:
        """Return whether the batch is applied. False: not yet, and `poll` comes then."""
        raise NotImplementedError

    def _poll_delay_ms(self) -> int:
        return 0

    def _tell_holdings(self) -> None:
        """ZooKeeper went back."""

    # Whom it asks

    @property
    def controller(self) -> str:
        return self._controllers[0]

    @property
    def witness(self) -> Witness | None:
        if self.session.cluster_id is None or self.seen.controller_epoch < 0:
            return None
        return Witness(cluster_id=self.session.cluster_id, **self.seen._asdict())

    def leave(self, name: str) -> None:
        """Try the next one; unless that has been done since `name` was asked, or one that answers would be
        left because of an earlier question to another."""
        if self.controller == name:
            self._controllers.append(self._controllers.pop(0))

    def hear(self, answer: ControllerAnswer) -> bool:
        """False: of a controller that is not to be believed."""
        seen = seen_after(self.seen, answer)
        if seen is not None:
            self.seen = seen
        return seen is not None

    # The session

    def register(self) -> None:
        session, process, controller = self.session, self._process, self.controller
        request, is_first = self._next_registration(), not session.is_registered

        def again() -> None:
            self.leave(controller)
            process.after(100 + 200 * self._random.random(), self.register)

        def lost() -> None:
            self._on_registration_answered(None)
            again()

        def answered(response: RegisterResponse) -> None:
            self._on_registration_answered(response.error)
            meaning = session.on_registered(response) if self.hear(response) else Meaning.REFUSED
            if meaning is Meaning.TELL_HOLDINGS:
                self._tell_holdings()
            if meaning is not Meaning.DONE:
                again()
                return
            self._on_registered(response, is_first=is_first)
            if is_first:
                self.begin()

        process.call(controller, request, answered, lost)

    def begin(self) -> None:
        """It is registered: all that goes on beside each other begins."""
        self.heartbeat()
        self.poll()

    def heartbeat(self) -> None:
        session, process, controller = self.session, self._process, self.controller
        beat = self._next_beat()
        if beat is None:
            return

        def answered(response: HeartbeatResponse) -> None:
            if not self.hear(response):
                self.leave(controller)
                return
            now_ms = process.clock.mono_ms
            meaning = session.on_heartbeat(beat.request, response, sent_ms=beat.sent_ms, now_ms=now_ms)
            match meaning:
                case Meaning.TELL_HOLDINGS:
                    self._tell_holdings()
                case Meaning.DISOWNED:
                    self.register()
                case Meaning.REFUSED:
                    self.leave(controller)
            self._on_heartbeat(beat, response, meaning)

        lost = partial(self.leave, controller)
        process.call(controller, beat.request, answered, lost, timeout_ms=HEARTBEAT_TIMEOUT_MS)
        interval_ms = self._cluster.options.heartbeat_interval_ms
        process.after(interval_ms * (0.9 + 0.2 * self._random.random()), self.heartbeat)

    def poll(self) -> None:
        session, process = self.session, self._process
        request = session.poll(self.witness)

        def answered(batch: UpdateBatch) -> None:
            meaning = session.on_batch(batch) if self.hear(batch) else Meaning.REFUSED
            if batch.error is ControllerError.NONE:
                self._on_batch(batch)
            if meaning is Meaning.IGNORED or (meaning is Meaning.APPLY and self._apply(batch)):
                process.after(0.1, self.poll)
            elif meaning is not Meaning.APPLY:
                process.after(50, self.poll)

        def lost() -> None:
            process.after(20, self.poll)

        def ask() -> None:
            timeout_ms = self._cluster.options.poll_wait_ms + 500
            process.call(self.controller, request, answered, lost, timeout_ms=timeout_ms)

        self._cluster.on_poll_sent(request.broker_id, self.controller)
        delay_ms = self._poll_delay_ms()
        if delay_ms:
            process.after(delay_ms, ask)
        else:
            ask()
