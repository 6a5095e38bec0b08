"""A broker's or coordinator's life at the controller: register, beat, apply, report, ask leave to stop.

    register --accepted--> beat | poll and apply | report, side by side --disowned--> register again

Each of the three has its own task, because they wait for different things: a heartbeat must go out on
time while a batch of updates is being applied, and a report must not wait for the long poll. What is said
and what an answer means is decided in core/session.py.

A controller that does not answer changes nothing but the lease. One that says that it does not know this
incarnation makes it register again with the same incarnation id and start over from the FULL state.

A coordinator has no log directory, so it has nothing to report.
"""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec
import trio

from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.groups import GroupNews
from springtide.contract.lag_report import LagReportResponse, PartitionLag
from springtide.contract.missing_topics import MissingTopic
from springtide.contract.session import (
    BrokerStatus,
    ClockLeap,
    DiskSpace,
    HeartbeatResponse,
    LevelShards,
    ProcessLoad,
    RegisterRequest,
    RegisterResponse,
    Witness,
)
from springtide.contract.transactions import TransactionNews
from springtide.contract.updates import ApplyFailure, UpdateBatch
from springtide.levels import Level
from springtide.node.clock import BrokerClock, last_beat, ms_to_beat
from springtide.node.controller_client import ControllerClient, ControllerUnavailable
from springtide.node.core.session import Meaning, MemberSession, StoredLogs, UntoldNews, WentBackProof
from springtide.node.lease import Lease

_log = logging.getLogger(__name__)

RETRY_MS = 200
RETRY_MS_MAX = 2_000
HEARTBEAT_TIMEOUT_MS = 2_000
REPORT_INTERVAL_MS = 500
REPORT_RETRY_MS = 100
REPORT_PARTITIONS_MAX = 2_000
"""Lags in one report; the rest follows in the next."""
LOG_UNAVAILABLE_EVERY_MS = 5_000
#: After so long without a failed attempt the next one is the first of another trouble.
TROUBLE_OVER_MS = 20_000


class RegistrationRefused(Exception):
    """The controller will not accept this process as it is; the message says what an operator can do."""


class Disowned(Exception):
    """The controller does not know this incarnation: register again."""


class WentBack(Exception):
    """This process was put back to an earlier state with its memory and disk: a virtual machine that was
    resumed from a snapshot (docs/replication.md 3.10, a host that goes back). It must end; the message is for
    an operator."""


class ReportSource(StoredLogs, Protocol):
    """A broker's replicas and its disk, as the report loop asks them and tells them the answers."""

    @property
    def untold(self) -> UntoldNews: ...

    def on_report_answered(self, response: LagReportResponse, now_ms: int) -> None: ...


class HeartbeatListener(Protocol):
    """Gets every acknowledged heartbeat: the preflight of brokers that wait to be added, and a coordinator's
    news of groups."""

    def on_heartbeat(self, response: HeartbeatResponse, *, sent_ms: int, now_ms: int) -> None: ...


class ControllerSession:
    """identity: a registration as of this process's start. reports, offline_log_dir_ids, log_dir_failure,
    keeps_its_logs, on_went_back, disk_space: of a broker, about what it stores. level, groups, transactions:
    of a coordinator, the shards that it is level with, and what is new of its groups and transactions.
    missing_topics, wants_transactions: what its clients ask for. load: of the process. listener: hears of
    acknowledged heartbeats."""

    def __init__(
        self,
        *,
        client: ControllerClient,
        identity: RegisterRequest,
        cluster_id: str | None,
        lease: Lease,
        clock: BrokerClock,
        rng: random.Random,
        reports: ReportSource | None = None,
        apply: Callable[[UpdateBatch], Awaitable[Sequence[ApplyFailure]]],
        on_registered: Callable[[RegisterResponse], Awaitable[None]],
        offline_log_dir_ids: Callable[[], tuple[str, ...]] = tuple,
        log_dir_failure: Callable[[], str] = str,
        keeps_its_logs: Callable[[], bool] = lambda: True,
        on_went_back: Callable[[], Awaitable[None]] | None = None,
        disk_space: Callable[[], DiskSpace | None] = lambda: None,
        certificate_ends_ms: Callable[[], int] = lambda: -1,
        listener: HeartbeatListener | None = None,
        level: Callable[[], tuple[LevelShards, ...]] = tuple,
        groups: Callable[[], GroupNews | None] = lambda: None,
        transactions: Callable[[], TransactionNews | None] = lambda: None,
        missing_topics: Callable[[], tuple[MissingTopic, ...]] = tuple,
        wants_transactions: Callable[[], bool] = bool,
        load: Callable[[], ProcessLoad | None] = lambda: None,
    ) -> None:
        self._listener = listener
        self._client = client
        self.core = MemberSession(identity, cluster_id=cluster_id, lease=lease)
        self._clock = clock
        self._rng = rng
        self._reports = reports
        self._apply = apply
        self._on_registered = on_registered
        self._offline_log_dir_ids = offline_log_dir_ids
        self._log_dir_failure = log_dir_failure
        self._keeps_its_logs = keeps_its_logs
        self._on_went_back = on_went_back
        self._disk_space = disk_space
        self._certificate_ends_ms = certificate_ends_ms
        self._scope = trio.CancelScope()
        self._has_ended = trio.Event()
        self._level = level
        self._groups = groups
        self._transactions = transactions
        self._missing_topics = missing_topics
        self._wants_transactions = wants_transactions
        self._load = load
        self._wake_report = trio.Event()
        self._wake_heartbeat = trio.Event()
        self._last_complaint_ms = -TROUBLE_OVER_MS
        self._has_leapt = False
        #: Set when the controller has taken every leadership from this broker and all brokers know it.
        self.may_shut_down = trio.Event()
        #: Set unless an earlier process of this broker id is believed to live: see _register.
        self.may_listen = trio.Event()

    @property
    def broker_epoch(self) -> BrokerEpoch:
        return self.core.broker_epoch

    @property
    def level(self) -> Level:
        """Return the cluster's feature level, as it was told last."""
        return self.core.level

    @property
    def status(self) -> BrokerStatus:
        return self.core.status

    @property
    def has_full_state(self) -> bool:
        return self.core.has_full_state

    @property
    def wants_shutdown(self) -> bool:
        return self.core.wants_shutdown

    @property
    def remaining_leaderships(self) -> int:
        return self.core.remaining_leaderships

    @property
    def _witness(self) -> Witness | None:
        return self._client.witness(self.core.cluster_id)

    def wake_report(self) -> None:
        """Send a report now: there is a proposal or a problem."""
        self._wake_report.set()

    def begin_shutdown(self) -> None:
        """Ask to stop, with a heartbeat that is sent at once."""
        self.core.wants_shutdown = True
        self._wake_heartbeat.set()

    async def stop(self) -> None:
        """End the session. Once this returns, nothing is told to the controller or applied any more: a
        process that closes its logs must not take a state for them, fail, and tell a broken disk."""
        self._scope.cancel()
        await self._has_ended.wait()

    async def run(self) -> None:
        """Run until cancelled or stopped. Raise RegistrationRefused, WentBack."""
        try:
            with self._scope:
                while True:
                    await self._register()
                    await self._serve()
        finally:
            self._has_ended.set()

    async def _serve(self) -> None:
        """Run until the controller does not know this incarnation any more. Raise WentBack."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._beat)
                nursery.start_soon(self._follow)
                if self._reports is not None:
                    nursery.start_soon(self._report, self._reports)
        except* Disowned as group:
            _log.warning("registered_anew cause=%s", group.exceptions[0])

    # Registration

    async def _register(self) -> None:
        delay_ms = RETRY_MS
        while True:
            request = self.core.registration(
                self._witness, offline=self._offline_log_dir_ids(), keeps_its_logs=self._keeps_its_logs()
            )
            try:
                response = await self._client.register(request)
            except ControllerUnavailable as error:
                self._complain("no_controller_to_register_with cause=%s", error)
                self.may_listen.set()
                await self._pause(delay_ms)
                delay_ms = min(delay_ms * 2, RETRY_MS_MAX)
                continue
            if response.error is not ControllerError.DUPLICATE_BROKER_REGISTRATION:
                # Until then the address is ours but refuses connections, which is how the controller finds
                # out that the process before us, on the same address, is dead.
                self.may_listen.set()
            match self.core.on_registered(response):
                case Meaning.DONE:
                    await self._on_accepted(response)
                    return
                case Meaning.TELL_HOLDINGS:
                    await self._tell_holdings()
                case Meaning.UNSUPPORTED_LEVEL:
                    raise RegistrationRefused(response.detail)
                case Meaning.ANOTHER_CLUSTERS:
                    raise RegistrationRefused(
                        f"this process belongs to another cluster or broker: {response.detail}; "
                        "start with its own cluster and id, or with an empty data directory"
                    )
                case _:
                    self._complain_of_refusal(response)
            await self._pause(max(response.retry_after_ms, RETRY_MS))

    def _complain_of_refusal(self, response: RegisterResponse) -> None:
        match response.error:
            case ControllerError.DUPLICATE_BROKER_REGISTRATION:
                self._complain(
                    "id_in_use role=%s id=%d cause=%s",
                    self._client.role,
                    self.core.identity.broker_id,
                    response.detail,
                )
            case ControllerError.UNKNOWN_CLUSTER:
                self._complain(
                    "cluster_unknown cause=%s hint=%s", response.detail, "create it with POST /clusters"
                )
            case _:
                self._complain("registration_refused error=%s cause=%s", response.error, response.detail)

    async def _on_accepted(self, response: RegisterResponse) -> None:
        _log.info(
            "registered role=%s id=%d cluster_id=%s epoch=%d controller=%s status=%s",
            self._client.role,
            self.core.identity.broker_id,
            response.cluster_id,
            response.broker_epoch,
            self._client.current_url,
            response.status.value,
        )
        if response.status is BrokerStatus.WAITING:
            hint = f"POST /clusters/{{cluster}}/{self._client.role} with id {self.core.identity.broker_id}"
            _log.info("waiting_to_be_admitted hint=%s", hint)
        await self._on_registered(response)

    # Heartbeats

    async def _beat(self) -> None:
        core = self.core
        while True:
            sent_ms = self._clock.mono_ms()
            request = msgspec.structs.replace(
                core.heartbeat(self._witness, clock_leap=self._leap(), offline=self._offline_log_dir_ids()),
                log_dir_failure=self._log_dir_failure(),
                disk=self._disk_space(),
                level=self._level(),
                groups=self._groups(),
                transactions=self._transactions(),
                certificate_ends_ms=self._certificate_ends_ms(),
                missing_topics=self._missing_topics(),
                wants_transactions=self._wants_transactions(),
                load=self._load(),
            )
            try:
                response = await self._client.heartbeat(request, timeout_ms=HEARTBEAT_TIMEOUT_MS)
            except ControllerUnavailable as error:
                self._complain("heartbeat_unanswered cause=%s", error)
                await self._clock.sleep_ms(min(RETRY_MS, core.heartbeat_interval_ms))
                continue
            now_ms = self._clock.mono_ms()
            before = core.status
            meaning = core.on_heartbeat(request, response, sent_ms=sent_ms, now_ms=now_ms)
            match meaning:
                case WentBackProof(text=proof):
                    if self._on_went_back is not None:
                        await self._on_went_back()
                    raise WentBack(
                        f"{proof}: its machine was resumed from a snapshot. Start it again: what it lost, it "
                        "fetches from its leaders, and until then it has no seat"
                    )
                case Meaning.DISOWNED:
                    raise Disowned(response.error.value)
                case Meaning.DONE:
                    self._on_acknowledged(response, before, sent_ms=sent_ms, now_ms=now_ms)
                case Meaning.REFUSED | Meaning.TELL_HOLDINGS:
                    self._complain("heartbeat_refused error=%s", response.error.value)
                    if meaning is Meaning.TELL_HOLDINGS:
                        await self._tell_holdings()
                case _:
                    pass
            next_ms = last_beat(sent_ms + core.heartbeat_interval_ms, core.heartbeat_interval_ms)
            with self._clock.timeout_ms(next_ms - self._clock.mono_ms()):
                await self._wake_heartbeat.wait()
            self._wake_heartbeat = trio.Event()

    def _on_acknowledged(
        self, response: HeartbeatResponse, before: BrokerStatus, *, sent_ms: int, now_ms: int
    ) -> None:
        self._clock.on_heartbeat(response, sent_ms=sent_ms)
        if self.status is not before:
            _log.info("status_changed before=%s after=%s", before.value, self.status.value)
        if self._listener is not None:
            self._listener.on_heartbeat(response, sent_ms=sent_ms, now_ms=now_ms)
        if self.core.may_shut_down:
            self.may_shut_down.set()

    def _leap(self) -> ClockLeap | None:
        """Return the clock's leap for the controller; log when it begins and ends."""
        leap = self._clock.leap()
        if leap is not None and not self._has_leapt:
            _log.error("clocks_disagree leap=%s consequence=%s", leap, "nothing is deleted by time")
        elif leap is None and self._has_leapt:
            _log.info("clocks_agree")
        self._has_leapt = leap is not None
        return leap

    # The metadata stream

    async def _follow(self) -> None:
        while True:
            request = self.core.poll(self._witness)
            try:
                batch = await self._client.poll(request)
            except ControllerUnavailable as error:
                self._complain("poll_unanswered cause=%s", error)
                await self._pause(RETRY_MS)
                continue
            match self.core.on_batch(batch):
                case Meaning.DISOWNED:
                    raise Disowned(batch.error.value)
                case Meaning.IGNORED:
                    continue
                case Meaning.APPLY:
                    pass
                case _:
                    self._complain("poll_refused error=%s", batch.error.value)
                    await self._pause(RETRY_MS)
                    continue
            failures = await self._apply(batch)
            self._client.note_records(batch.records, batch.level)
            self.core.on_applied(batch, failures)
            if self.status is not BrokerStatus.ACTIVE:
                self._wake_heartbeat.set()  # the answer may say at once that the broker is active

    # Reports

    async def _report(self, reports: ReportSource) -> None:
        next_lags_ms = self._clock.mono_ms()
        while True:
            now_ms = self._clock.mono_ms()
            with self._clock.timeout_ms(next_lags_ms - now_ms):
                await self._wake_report.wait()
            self._wake_report = trio.Event()
            now_ms = self._clock.mono_ms()
            lags: Sequence[PartitionLag] = ()
            if now_ms >= next_lags_ms:
                lags = reports.untold.changed_lags(now_ms, count_max=REPORT_PARTITIONS_MAX)
                next_lags_ms = now_ms + ms_to_beat(now_ms, REPORT_INTERVAL_MS)
            report = self.core.report(
                reports.untold,
                reports,
                self._witness,
                lags=lags,
                count_max=REPORT_PARTITIONS_MAX,
                now_ms=now_ms,
            )
            if report is None:
                continue
            try:
                response = await self._client.report(report)
            except ControllerUnavailable as error:
                self.core.on_report_lost(report, reports.untold)
                self._complain("report_unanswered cause=%s", error)
                await self._pause(REPORT_RETRY_MS)
                self._wake_report.set()
                continue
            meaning, has_more = self.core.on_report(report, reports.untold, response)
            if meaning is Meaning.DISOWNED:
                raise Disowned(response.error.value)
            if has_more:
                self._wake_report.set()
            reports.on_report_answered(response, self._clock.mono_ms())

    async def _tell_holdings(self) -> None:
        """Report what this broker holds. A coordinator holds nothing."""
        if self._reports is None:
            return
        report = self.core.holdings(
            self._reports,
            self._witness,
            offline=self._offline_log_dir_ids(),
            now_ms=self._clock.mono_ms(),
        )
        if report is None:
            return
        self._complain("metadata_went_back consequence=%s", "it still leads, and does nothing else")
        with contextlib.suppress(ControllerUnavailable):
            await self._client.report(report)

    # Waiting and complaining

    async def _pause(self, delay_ms: float) -> None:
        """Sleep with jitter, so that brokers that lost one controller do not all come back at once."""
        await self._clock.sleep_ms(delay_ms * self._rng.uniform(0.5, 1.5))

    def _complain(self, text: str, *args: object) -> None:
        """Log it once in a while: the lines of a long outage are all alike. The first is ordinary, as while
        controllers elect one; what goes on is a warning."""
        now_ms = self._clock.mono_ms()
        quiet_ms = now_ms - self._last_complaint_ms
        if quiet_ms >= LOG_UNAVAILABLE_EVERY_MS:
            self._last_complaint_ms = now_ms
            goes_on = quiet_ms < TROUBLE_OVER_MS
            _log.log(logging.WARNING if goes_on else logging.INFO, text, *args)
