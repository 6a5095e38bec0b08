"""Which controller is active: an election over one ephemeral znode, and the term that winning it begins.

    standby --claim committed--> active --resign | session lost | claim gone--> standby

Winning writes the next controller epoch and the ephemeral claim in one multi, so there is never a claim
without a new epoch, and every write of an earlier active controller fails from then on (I5, one writer of
metadata). Being active is therefore never what makes a write safe; the epoch check inside each write is. What
a term adds is *authority*: heartbeats are acknowledged and decisions taken only while this controller can
prove that its claim still stands (2.10, the controller's authority). The proof is an answered read that went
through ZooKeeper's leader, counted from when it was sent. kazoo's `Election.run` is not used: the function it
runs is not interrupted when the session is lost.

A term ends for good when the session is lost or the claim has gone; the next one reads everything again. A
lost connection, a slow ZooKeeper or a held loop only suspend authority, and the next proof gives it back,
however long that took: while the claim stood no other controller was elected or wrote, so the image is still
true. What was not heard meanwhile counts against no broker (loop_watch.py).

A standby does not have to wait for the dead controller's session to expire: it holds a connection to the
active one's listener, and when that ends and the listener refuses another, it puts its own claim in the
place of that one. A wrong conclusion costs an election, nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import anyio
import msgspec

from controller.shell.clock import ControllerClock, Ids
from controller.shell.levels import RUNNING_PATH, why_not_stand
from controller.shell.listeners import Listeners, is_proven_dead
from controller.shell.meta import (
    ANY_VERSION,
    CheckVersion,
    Committed,
    Create,
    Delete,
    Meta,
    MetaUnavailable,
    Node,
    Rejected,
    SessionState,
    SetData,
    Unknown,
)
from springtide.contract.epochs import ControllerEpoch
from springtide.levels import SUPPORTED, LevelRange

log = logging.getLogger(__name__)

EPOCH_PATH: Final = "/controller_epoch"
CONTROLLERS_PATH: Final = "/controllers"
ACTIVE_PATH: Final = "/controllers/active"
CLUSTERS_PATH: Final = "/clusters"

#: A proof of authority is renewed this many times per session timeout.
PROOFS_PER_SESSION: Final = 8
#: Authority ends this fraction of the session timeout before ZooKeeper could have given the claim to another:
#: the slack for clock rates and for the way from the check to the socket.
MARGIN_FRACTION: Final = 4
#: After a failed step of the election, and after resigning: long enough for another controller to step in.
RETRY_PAUSE_MS: Final = 100
#: A standby looks at the claim at least this often, should a notice have been lost.
STANDBY_RECHECK_MS: Final = 5_000
GOODBYE_TIMEOUT_MS: Final = 1_000


class EpochRow(msgspec.Struct, frozen=True, kw_only=True):
    """`/controller_epoch`. The znode's version is what writes check; the number is what people and brokers
    see. lineage: the random id of the term that has the number (its claim's id): where ZooKeeper goes back,
    the number is given again, and its lineage is not."""

    controller_epoch: ControllerEpoch
    controller_id: str = ""
    lineage: str = ""


class ClaimRow(msgspec.Struct, frozen=True, kw_only=True):
    """`/controllers/active`, ephemeral. `claim_id` tells a claim from an earlier one of the same controller.
    halted: clusters for which nothing is decided in this term, and the evidence that their metadata went
    back. levels: that the controller can run at; UNSET: it told none."""

    controller_id: str
    url: str
    controller_epoch: ControllerEpoch
    claim_id: str
    halted: dict[str, str] = {}
    levels: LevelRange | msgspec.UnsetType = msgspec.UNSET


class Resigned(Exception):
    """The term is over; what was being done for it must stop."""


@dataclass(frozen=True, slots=True)
class ActiveController:
    """The active controller as last read. halted: see ClaimRow."""

    controller_id: str
    url: str
    controller_epoch: ControllerEpoch
    halted: Mapping[str, str]


class Term:
    """One uninterrupted time of being active, under one controller epoch."""

    def __init__(
        self,
        *,
        claim: ClaimRow,
        epoch_version: int,
        session_id: int,
        session_timeout_ms: int,
        clock: ControllerClock,
    ) -> None:
        self.controller_epoch = claim.controller_epoch
        self.lineage = claim.claim_id
        self.claim = claim
        self.session_id = session_id
        #: Goes into every write.
        self.epoch_check = CheckVersion(EPOCH_PATH, epoch_version)
        self._clock = clock
        self._authority_ms = session_timeout_ms - session_timeout_ms // MARGIN_FRACTION
        self._proof_sent_ms: int | None = None
        self._suspended_at_ms: int | None = None
        self._proved = anyio.Event()
        self._ended = anyio.Event()
        self.end_reason: str | None = None

    @property
    def has_authority(self) -> bool:
        """Return whether this controller may decide and acknowledge at this moment; test it at each use."""
        return (
            not self._ended.is_set()
            and self._proof_sent_ms is not None
            and self._clock.now_mono_ms() - self._proof_sent_ms < self._authority_ms
        )

    def prove(self, sent_ms: int) -> None:
        """An answer arrived that shows the claim standing at some moment after `sent_ms`. Called in any
        thread: while the loop is held, authority goes on. A suspension at the same moment may be overlooked
        for the life of this proof, which is true all the same."""
        if self._suspended_at_ms is not None and sent_ms <= self._suspended_at_ms:
            return
        if self._proof_sent_ms is None or sent_ms > self._proof_sent_ms:
            self._proof_sent_ms = sent_ms
            self._proved.set()
            self._proved = anyio.Event()

    async def proven_after(self, asked_ms: int) -> None:
        """Wait until something sent after `asked_ms` has shown the claim standing, or the term has ended."""
        while not self._ended.is_set() and (self._proof_sent_ms is None or self._proof_sent_ms <= asked_ms):
            await self._proved.wait()

    def suspend(self) -> None:
        """The connection was lost: no authority until something sent from now on is answered."""
        self._suspended_at_ms = self._clock.now_mono_ms()
        self._proof_sent_ms = None

    def resign(self, reason: str) -> None:
        """End the term. Safe to call again; the first reason stays."""
        if not self._ended.is_set():
            self.end_reason = reason
            self._ended.set()
            self._proved.set()

    async def ended(self) -> None:
        await self._ended.wait()


class Leadership:
    """Takes part in the election for as long as `run` runs.

    Args:
        controller_id: unique per process.
        url: where brokers and operators reach this controller, as told to the others.
        may_stand: False for a controller that only shows what others do.
    """

    def __init__(
        self,
        *,
        meta: Meta,
        clock: ControllerClock,
        ids: Ids,
        listeners: Listeners,
        controller_id: str,
        url: str,
        may_stand: bool = True,
    ) -> None:
        self._meta = meta
        self._clock = clock
        self._ids = ids
        self._listeners = listeners
        self._controller_id = controller_id
        self._url = url
        self._may_stand = may_stand
        self._pending_claim: ClaimRow | None = None
        #: Why this controller does not stand for election, as last found; None: it does, or is an observer.
        self.why_not: str | None = None
        self.term: Term | None = None
        self.active: ActiveController | None = None
        self.elections_won = 0

    @property
    def active_url(self) -> str | None:
        """The URL of the active controller as last seen, perhaps this one, or None."""
        return None if self.active is None else self.active.url

    @property
    def elsewhere(self) -> str | None:
        """Return where the active controller is; None if it is not known or names this address. A redirect to
        the address that just refused would be a loop: also where an earlier process of this address still has
        the claim, as in a ZooKeeper that was restored."""
        return None if self.active_url == self._url else self.active_url

    async def run(self, serve: Callable[[Term], Awaitable[None]]) -> None:
        """Stand for election for ever. `serve` is started with each term won and cancelled when it ends; that
        it returns or raises `Resigned` ends the term too."""
        try:
            while True:
                term = await self._campaign()
                self.elections_won += 1
                self.term = term
                try:
                    await self._hold(term, serve)
                finally:
                    self.term = None
                    self.active = None
                    term.resign("the controller stops")
                    log.info("resigned controller_epoch=%d reason=%s", term.controller_epoch, term.end_reason)
                    with anyio.CancelScope(shield=True), self._clock.timeout_ms(GOODBYE_TIMEOUT_MS):
                        await self._withdraw(term)
                await self._clock.sleep_ms(RETRY_PAUSE_MS)
        finally:
            self.active = None

    async def raise_epoch(self, term: Term, controller_epoch_min: int) -> None:
        """End the term so that the next one's controller epoch is above `controller_epoch_min`."""
        epoch = max(term.controller_epoch, controller_epoch_min)
        row = EpochRow(
            controller_epoch=ControllerEpoch(epoch), controller_id=self._controller_id, lineage=term.lineage
        )
        write = SetData(EPOCH_PATH, msgspec.json.encode(row), term.epoch_check.version)
        outcome = await self._meta.start_write([write]).outcome()
        term.resign(f"the metadata was recovered, the next controller epoch is above {epoch}: {outcome}")

    async def tell_halted(self, term: Term, halted: dict[str, str]) -> None:
        """Write into the claim which clusters are halted, for standbys to show. Try again if it was not
        done: `term.claim` says what the claim holds."""
        claim = msgspec.structs.replace(term.claim, halted=halted)
        write = SetData(ACTIVE_PATH, msgspec.json.encode(claim), ANY_VERSION)
        if isinstance(await self._meta.start_write([term.epoch_check, write]).outcome(), Committed):
            term.claim = claim

    # -- standing for election --

    async def _campaign(self) -> Term:
        while True:
            try:
                term = await self._try_claim()
            except MetaUnavailable as error:
                log.info("election_waits reason=%s", str(error))
                self.active = None
                await self._connected()
                await self._clock.sleep_ms(RETRY_PAUSE_MS)
                continue
            if term is not None:
                return term

    async def _connected(self) -> None:
        session = self._meta.session
        while session.state is not SessionState.CONNECTED:
            session = await self._meta.session_changed(session)

    async def _try_claim(self) -> Term | None:
        """Look at the claim, then wait for it to go, or take it. Return None to look again."""
        await self._ensure_paths()
        watch = await self._meta.watch(ACTIVE_PATH)
        session = self._meta.session
        if watch.node is not None:
            claim = msgspec.json.decode(watch.node.data, type=ClaimRow)
            if watch.node.owner == session.session_id:
                return await self._recognise(claim, watch.node)
            self.active = _holder(claim)
            is_dead = await self._outwait(claim, watch.node, watch.changed)
            return await self._claim(self._meta.session.session_id, dead=watch.node) if is_dead else None
        self.active = None
        if not self._may_stand:
            with self._clock.timeout_ms(STANDBY_RECHECK_MS):
                await watch.changed()
            return None
        return await self._claim(session.session_id)

    async def _claim(self, session_id: int, *, dead: Node | None = None) -> Term | None:
        """Take the claim. dead: the claim that is in the way, of a controller that was proven dead: it goes
        in the same write, because each write waits for a disk. Return None to look again."""
        if not await self._may_serve():
            return None
        node = await self._meta.get_synced(EPOCH_PATH)
        if node is None:
            return None
        if dead is not None:
            # Another may have claimed since, and its znode has the version of this one. If it does so from
            # now on, the epoch is another one, and nothing is written.
            current = await self._meta.get_synced(ACTIVE_PATH)
            if current is None or current.created_zxid != dead.created_zxid:
                return None
            dead = current
        epoch = msgspec.json.decode(node.data, type=EpochRow).controller_epoch + 1
        claim = ClaimRow(
            controller_id=self._controller_id,
            url=self._url,
            controller_epoch=ControllerEpoch(epoch),
            claim_id=self._ids.new_id(),
            levels=SUPPORTED,
        )
        row = EpochRow(
            controller_epoch=ControllerEpoch(epoch), controller_id=self._controller_id, lineage=claim.claim_id
        )
        self._pending_claim = claim
        sent_ms = self._clock.now_mono_ms()
        outcome = await self._meta.start_write(
            [
                SetData(EPOCH_PATH, msgspec.json.encode(row), node.version),
                *(() if dead is None else (Delete(ACTIVE_PATH, dead.version),)),
                Create(ACTIVE_PATH, msgspec.json.encode(claim), ephemeral=True),
            ]
        ).outcome()
        match outcome:
            case Committed():
                return self._begin(claim, node.version + 1, session_id, sent_ms)
            case Rejected():
                self._pending_claim = None
                return None
            case Unknown(detail):
                # The next round reads the claim: if it is ours, `_recognise` takes it up.
                log.info("claim_outcome_unknown controller_epoch=%d detail=%s", epoch, detail)
                raise MetaUnavailable(detail)

    async def _may_serve(self) -> bool:
        """Return whether this release can run at the level of each cluster. If not, another controller must
        stand: look again after a while."""
        why_not = await why_not_stand(self._meta, CLUSTERS_PATH)
        if why_not is not None and why_not != self.why_not:
            log.error("does_not_stand cause=%s", why_not)
        self.why_not = why_not
        if why_not is None:
            return True
        await self._clock.sleep_ms(STANDBY_RECHECK_MS)
        return False

    async def _recognise(self, claim: ClaimRow, node: Node) -> Term | None:
        """The claim stands and belongs to our session: a claim whose answer was lost, or one that we meant to
        withdraw and whose withdrawal was lost. The first begins a term, the second is withdrawn again: a term
        that has ended is never resumed under its epoch."""
        if self._pending_claim is not None and claim.claim_id == self._pending_claim.claim_id:
            sent_ms = self._clock.now_mono_ms()
            epoch_node = await self._meta.get_synced(EPOCH_PATH)
            if epoch_node is not None:
                row = msgspec.json.decode(epoch_node.data, type=EpochRow)
                if row.controller_epoch == claim.controller_epoch:
                    return self._begin(claim, epoch_node.version, node.owner, sent_ms)
        await self._meta.start_write([Delete(ACTIVE_PATH, node.version)]).outcome()
        return None

    def _begin(self, claim: ClaimRow, epoch_version: int, session_id: int, sent_ms: int) -> Term:
        self._pending_claim = None
        session = self._meta.session
        term = Term(
            claim=claim,
            epoch_version=epoch_version,
            session_id=session_id,
            session_timeout_ms=session.timeout_ms,
            clock=self._clock,
        )
        if session.session_id != session_id or session.state is SessionState.LOST:
            term.resign("the ZooKeeper session was lost while it was being won")
        else:
            term.prove(sent_ms)
        self.active = _holder(claim)
        log.info("elected controller_epoch=%d url=%s", claim.controller_epoch, claim.url)
        return term

    async def _ensure_paths(self) -> None:
        """The fixed znodes. Creating one that exists is a rejection, and the race to create them is
        harmless."""
        if not self._may_stand:
            return
        await self._meta.ensure_root()
        rows = (
            (CONTROLLERS_PATH, b""),
            (RUNNING_PATH, b""),
            (CLUSTERS_PATH, b""),
            (EPOCH_PATH, msgspec.json.encode(EpochRow(controller_epoch=ControllerEpoch(0)))),
        )
        for (path, data), node in zip(
            rows, await self._meta.get_many([path for path, _ in rows]), strict=True
        ):
            if node is None:
                await self._meta.start_write([Create(path, data)]).outcome()

    # -- waiting behind another controller --

    async def _outwait(self, claim: ClaimRow, node: Node, changed: Callable[[], Awaitable[None]]) -> bool:
        """Return when the claim may have changed, or, with True, once its holder was proven dead."""
        log.info("standby active_url=%s controller_epoch=%d", claim.url, claim.controller_epoch)
        is_dead = False
        async with anyio.create_task_group() as tasks:

            async def notice() -> None:
                is_over = False
                while not is_over:
                    with self._clock.timeout_ms(STANDBY_RECHECK_MS):
                        await changed()
                        break
                    current = await self._meta.get(ACTIVE_PATH)
                    is_over = current is None or current.created_zxid != node.created_zxid
                tasks.cancel_scope.cancel()

            async def watch_over() -> None:
                nonlocal is_dead
                if await self._is_holder_dead(claim):
                    log.info("active_proven_dead url=%s", claim.url)
                    is_dead = True
                    tasks.cancel_scope.cancel()

            tasks.start_soon(watch_over)
            try:
                await notice()
            except MetaUnavailable as error:  # Not through the task group, which would wrap it.
                log.info("standby_rechecks reason=%s", str(error))
                tasks.cancel_scope.cancel()
        return is_dead

    async def _is_holder_dead(self, claim: ClaimRow) -> bool:
        """Wait until the holder's listener, once seen accepting, refuses: before it was reached, a refusal
        says more about the address than about the process. Return False when there is nothing to watch."""
        address = urlsplit(claim.url)
        if address.hostname is None or not self._may_stand or claim.controller_id == self._controller_id:
            return False
        host, port = address.hostname, address.port or 80
        was_reached = was_told = False

        def say_once() -> None:
            nonlocal was_told
            if not was_told:
                log.info("standby_watches url=%s", claim.url)
            was_told = True

        while True:
            # A dying process closes its connections before or after its listener: the probe that follows
            # the end of one may still be accepted, and the next connection refused.
            # An active controller closes a connection that stays silent for long; then there is a next one.
            was_reached |= await self._listeners.hold(host, port, on_accepted=say_once)
            if was_reached and await is_proven_dead(self._listeners, self._clock, host=host, port=port):
                return True
            await self._clock.sleep_ms(RETRY_PAUSE_MS)

    # -- being active --

    async def _hold(self, term: Term, serve: Callable[[Term], Awaitable[None]]) -> None:
        async with anyio.create_task_group() as tasks:

            async def serve_until_over() -> None:
                try:
                    await serve(term)
                except Resigned as reason:
                    term.resign(str(reason))
                except Exception:
                    # What stands in ZooKeeper is whole after any error: the next term starts from there.
                    log.exception("term_failed controller_epoch=%d", term.controller_epoch)
                    term.resign("an unexpected error")
                term.resign("serving ended")

            tasks.start_soon(serve_until_over)
            tasks.start_soon(self._keep_proving, term)
            tasks.start_soon(self._follow_session, term)
            await term.ended()
            tasks.cancel_scope.cancel()

    async def _keep_proving(self, term: Term) -> None:
        pause_ms = max(1, self._meta.session.timeout_ms // PROOFS_PER_SESSION)

        def on_read(sent_ms: int, node: Node | None) -> bool:
            is_ours = self._is_claim_of(term, node)
            if is_ours:
                term.prove(sent_ms)
            return is_ours

        await self._meta.keep_reading(ACTIVE_PATH, pause_ms=pause_ms, clock=self._clock, on_read=on_read)
        term.resign("the claim is gone")

    async def _follow_session(self, term: Term) -> None:
        session = self._meta.session
        while True:
            if session.state is SessionState.LOST or session.session_id != term.session_id:
                term.resign("the ZooKeeper session was lost")
                return
            if session.state is SessionState.SUSPENDED:
                log.warning("authority_suspended controller_epoch=%d", term.controller_epoch)
                term.suspend()
            session = await self._meta.session_changed(session)

    async def _withdraw(self, term: Term) -> None:
        """Remove our claim, so that a standby need not wait for the session to end. Best effort."""
        await _swallow_unavailable(lambda: self._delete_claim(term))

    async def _delete_claim(self, term: Term) -> None:
        node = await self._meta.get_synced(ACTIVE_PATH)
        if node is not None and self._is_claim_of(term, node):
            await self._meta.start_write([Delete(ACTIVE_PATH, ANY_VERSION)]).outcome()

    def _is_claim_of(self, term: Term, node: Node | None) -> bool:
        if node is None or node.owner != term.session_id:
            return False
        return msgspec.json.decode(node.data, type=ClaimRow).claim_id == term.claim.claim_id


def _holder(claim: ClaimRow) -> ActiveController:
    return ActiveController(claim.controller_id, claim.url, claim.controller_epoch, claim.halted)


async def _swallow_unavailable(act: Callable[[], Awaitable[None]]) -> None:
    try:
        await act()
    except MetaUnavailable as error:
        log.info("zookeeper_unavailable detail=%s", str(error))
