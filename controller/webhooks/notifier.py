"""Tells alarms to webhooks while this controller is active: one task, started with the engine.

Each look compares the alarms that are up with what each webhook was told, and stores what changed before it
is sent. A controller that takes over reads that, takes the rows for itself, and goes on: a former one can't
store any more, and what it can't store it does not send. What was sent and could not be noted is sent again
under the same id. While SQL takes no writes, messages are sent all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

import anyio
import anyio.abc
import msgspec
from msgspec import UNSET

from controller.core.effects import Alarm, AlarmCode
from controller.core.image import ClusterImage
from controller.core.silences import Silence, Subject
from controller.database.sql import Database, DatabaseRejected, DatabaseUnavailable
from controller.database.webhook_rows import WebhookRow, all_silences, all_webhooks, save_state
from controller.shell.clock import ControllerClock, Ids, RandomBytes
from controller.shell.engine import Engine
from controller.shell.outcomes import NotActive, UnknownCluster
from controller.webhooks.core.message import Format, Message, MessageKind, body_of, headers_of
from controller.webhooks.core.target import (
    EACH_MAX,
    AttemptFailed,
    Delays,
    Kept,
    Looked,
    MessageDelivered,
    Now,
    ReceiverGone,
    Save,
    SeenAlarm,
    SendMessage,
    Target,
    TargetEffect,
    TargetEvent,
)
from controller.webhooks.posting import Post, Posted, check_url

_log = logging.getLogger(__name__)

_FORMATS: Final = tuple(found.value for found in Format)
#: Between two looks.
LOOK_MS: Final = 1_000
#: Between two attempts to read or store while SQL can't be used: each may take seconds, in which nothing is
#: told.
SQL_RETRY_MS: Final = 5_000
#: Of more alarms than these only the first of each code are listed: their words take time.
LISTED_MAX: Final = 200
_GONE: Final = 410


class _Webhook:
    """A webhook as it is run. saved: what SQL has of it, under `state_revision`."""

    def __init__(self, row: WebhookRow, kept: Kept, target: Target, *, epoch: int) -> None:
        self.row = row
        self.target = target
        self.epoch = epoch
        self.saved = kept
        self.state_revision = row.state_revision
        self.saving = anyio.Lock()
        self.is_dropped = False


class Notifier:
    """The task, and what REST asks of it. `post` sends; tests give another one."""

    def __init__(
        self,
        *,
        engine: Engine,
        store: Database,
        clock: ControllerClock,
        random_bytes: RandomBytes,
        post: Post,
        allowed_hosts: tuple[str, ...],
    ) -> None:
        self.post = post
        self.allowed_hosts = allowed_hosts
        self._engine = engine
        self._store = store
        self._clock = clock
        self._random_bytes = random_bytes
        self._ids = Ids(random_bytes)
        self._webhooks: dict[str, _Webhook] = {}
        self._silences: tuple[Silence, ...] = ()
        #: Epoch under which rows were read, and how often they had been written by then.
        self._read_under: tuple[int, int] | None = None
        self._written = 0
        self._wake = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._sql_failed = False
        self._sql_retry_ms = 0

    # -- what REST asks --

    def wake(self) -> None:
        """Rows were written: read them again."""
        self._written += 1
        self._wake.set()

    def silences_of(self, cluster: str) -> tuple[Silence, ...]:
        """Return the cluster's silences as they were read last; none on a standby."""
        return tuple(one for one in self._silences if one.cluster == cluster)

    def kept_of(self, row: WebhookRow) -> Kept:
        """Return what a webhook was told and how it fares: as it is here, or else as it was stored last."""
        webhook = self._webhooks.get(row.uid)
        return kept_in(row) if webhook is None else webhook.target.kept

    def running(self) -> list[tuple[WebhookRow, Kept]]:
        """Return the webhooks that this controller tells, for metrics."""
        return [(one.row, one.target.kept) for one in self._webhooks.values()]

    async def test(self, row: WebhookRow) -> Posted:
        """Send a sample once, beside the messages that wait."""
        subject = Subject(code=AlarmCode.BROKER_FENCED.value, broker_id=1)
        detail = "A test: nothing has happened"
        now_ms = self._clock.now_wall_ms()
        message = Message(
            id=f"msg_{self._ids.new_id()}",
            event=MessageKind.TEST,
            at_ms=now_ms,
            detail=detail,
            subject=subject,
            since_ms=now_ms,
        )
        return await self._attempt(row, message)

    # -- the task --

    async def run(self) -> None:
        """Run until cancelled; idle on a standby."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            while True:
                await self.look()
                self._wake = anyio.Event()
                with self._clock.timeout_ms(LOOK_MS):
                    await self._wake.wait()

    async def look(self) -> None:
        """Look once at every cluster's alarms."""
        if self._engine.role != "active":
            self._forget()
            self._silences = ()
            return
        try:
            await self._read_if_needed(self._engine.controller_epoch)
            for cluster in self._engine.clusters():
                await self._look_at(cluster)
        except (NotActive, UnknownCluster) as error:
            _log.info("webhooks_wait cause=%s", error)

    def _forget(self) -> None:
        for webhook in self._webhooks.values():
            webhook.is_dropped = True
        self._webhooks = {}
        self._read_under = None

    async def _read_if_needed(self, epoch: int) -> None:
        """Read rows, under a new term or when they were written. While that fails, go on with those that are
        known."""
        read_under = (epoch, self._written)
        if self._read_under == read_under or self._is_sql_left_alone:
            return
        before = self._webhooks
        try:
            self._webhooks = await self._read(epoch)
        except (DatabaseUnavailable, DatabaseRejected) as error:
            self._note_sql(str(error))
            return
        self._read_under = read_under
        for webhook in before.values():
            webhook.is_dropped = self._webhooks.get(webhook.row.uid) is not webhook
        self._note_sql(None)

    async def _read(self, epoch: int) -> dict[str, _Webhook]:
        """Read what is to be told to whom. Rows that this term has not had yet are taken from the controller
        before, by a new state revision."""
        now = self._now()
        rows = await self._store.read(all_webhooks)
        self._silences = tuple(await self._store.read(all_silences, wall_ms=now.wall_ms))
        found: dict[str, _Webhook] = {}
        for row in rows:
            if not row.enabled:
                continue
            delays = Delays(wait_ms=row.wait_ms, settle_ms=row.settle_ms)
            known = self._webhooks.get(row.uid)
            if known is None or known.epoch != epoch:
                kept = kept_in(row)
                prefix = f"msg_{self._ids.new_id()}"
                target = Target(delays, kept, prefix=prefix, revision=row.revision, now=now)
                known = _Webhook(row, kept, target, epoch=epoch)
                if not await self._save(known, is_claim=True):
                    raise DatabaseUnavailable("a webhook's row has changed meanwhile")
            known.row = row
            known.target.configure(delays, row.revision)
            found[row.uid] = known
        return found

    async def _look_at(self, cluster: str) -> None:
        webhooks = [one for one in self._webhooks.values() if one.row.cluster == cluster]
        now = self._now()
        failing = [one.row.name for one in webhooks if one.target.fails(now)]
        driver = self._engine.drivers.get(cluster)
        if driver is not None:
            driver.webhooks_fail = ", ".join(failing) or None
        if not webhooks:
            return
        view = self._engine.cluster(cluster)
        counts = {code.value: count for code, count in view.alarm_counts().items() if count}
        is_whole = sum(counts.values()) <= LISTED_MAX
        alarms = view.alarms() if is_whole else view.first_alarms(2 * EACH_MAX)
        seen = [SeenAlarm(subject_of(view.image, alarm), alarm.detail) for alarm in alarms]
        silences = self.silences_of(cluster)
        for webhook in webhooks:
            looked = Looked(
                seen=seen,
                is_whole=is_whole,
                counts=counts,
                silences=silences,
                others_fail=any(name != webhook.row.name for name in failing),
            )
            await self._step(webhook, looked)

    async def _step(self, webhook: _Webhook, event: TargetEvent) -> None:
        effects = webhook.target.step(event, self._now())
        if (Save() in effects or webhook.saved != webhook.target.kept) and not await self._try_save(webhook):
            return
        self._carry_out(webhook, effects)

    def _carry_out(self, webhook: _Webhook, effects: Sequence[TargetEffect]) -> None:
        for effect in effects:
            match effect:
                case Save():
                    pass
                case SendMessage(message=message):
                    assert self._tasks is not None, "run() comes first"
                    self._tasks.start_soon(self._send, webhook, message)
                case _:
                    _log.warning(
                        "webhook cluster=%s webhook=%s what=%s detail=%s",
                        webhook.row.cluster,
                        webhook.row.name,
                        effect.code,
                        effect.detail,
                    )

    async def _send(self, webhook: _Webhook, message: Message) -> None:
        posted = await self._attempt(webhook.row, message)
        if webhook.is_dropped:
            return
        if posted.is_delivered:
            event: TargetEvent = MessageDelivered(message.id)
        elif posted.status == _GONE:
            event = ReceiverGone(message.id)
        else:
            jitter = self._random_bytes(1)[0] / 255
            event = AttemptFailed(message.id, posted.why, jitter, posted.retry_after_ms)
        await self._step(webhook, event)

    async def _attempt(self, row: WebhookRow, message: Message) -> Posted:
        link = f"{self._engine.leadership.active_url}/#{row.cluster}"
        try:
            check_url(row.url, self.allowed_hosts)
        except ValueError as error:
            return Posted(None, f"its URL {error}")
        if row.format not in _FORMATS:
            return Posted(None, f"its format {row.format!r} is of a later release: only that one can send it")
        body = body_of(message, cluster=row.cluster, link=link, format=Format(row.format))
        headers = headers_of(message.id, body, secret=row.secret, wall_ms=self._clock.now_wall_ms())
        return await self.post(row.url, body, headers)

    # -- storing --

    async def _try_save(self, webhook: _Webhook) -> bool:
        """Store what is kept. Return False if the row is another controller's, or gone: nothing may be sent.
        While SQL takes no writes return True: an alarm that is told twice is better than one that is not."""
        if self._is_sql_left_alone:
            return not webhook.is_dropped
        try:
            is_saved = await self._save(webhook)
        except (DatabaseUnavailable, DatabaseRejected) as error:
            self._note_sql(str(error))
            return True
        if not is_saved:
            webhook.is_dropped = True
            self._webhooks.pop(webhook.row.uid, None)
            self._read_under = None
        return is_saved and not webhook.is_dropped

    async def _save(self, webhook: _Webhook, *, is_claim: bool = False) -> bool:
        async with webhook.saving:
            kept = webhook.target.kept
            if kept == webhook.saved and not is_claim:
                return True
            # Beside what a later release keeps there.
            state = {**webhook.row.state, **msgspec.to_builtins(kept)}
            work = partial(save_state, uid=webhook.row.uid, state=state, after=webhook.state_revision)
            if not await self._store.write(work):
                return False
            webhook.state_revision += 1
            webhook.saved = kept
            self._note_sql(None)
            return True

    @property
    def _is_sql_left_alone(self) -> bool:
        return self._sql_failed and self._clock.now_mono_ms() < self._sql_retry_ms

    def _note_sql(self, cause: str | None) -> None:
        self._sql_retry_ms = self._clock.now_mono_ms() + SQL_RETRY_MS
        if self._sql_failed != (cause is not None):
            self._sql_failed = cause is not None
            if cause is not None:
                _log.warning("webhooks_not_stored cause=%s", cause)
            else:
                _log.info("webhooks_stored_again")

    def _now(self) -> Now:
        return Now(self._clock.now_mono_ms(), self._clock.now_wall_ms())


def kept_in(row: WebhookRow) -> Kept:
    """Return what was stored. What another release has stored otherwise is forgotten: alarms begin anew."""
    try:
        return msgspec.convert(row.state, Kept)
    except msgspec.ValidationError as error:
        _log.warning("webhook_state_forgotten webhook=%s cause=%s", row.name, error)
        return Kept()


def subject_of(image: ClusterImage, alarm: Alarm) -> Subject:
    """Return the alarm as silences and webhooks name it: with the topic's name, where it is known."""
    key = alarm.key
    topic = None if key.topic_id is None else image.topics.get(key.topic_id)
    return Subject(
        code=key.code.value,
        topic=None if topic is None else topic.topic,
        topic_id=key.topic_id,
        partition=key.partition,
        broker_id=key.broker_id,
        group_id=key.group_id,
        transactional_id=UNSET if key.transactional_id is None else key.transactional_id,
        producer_id=UNSET if key.producer_id is None else key.producer_id,
    )
