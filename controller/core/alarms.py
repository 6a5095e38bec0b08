"""The alarms for operators, derived from the image and from what brokers reported.

Partition alarms follow the image: they are raised and cleared when a step changes the partition. Replica and
broker alarms follow reports and sessions. A partition without a leader is explained replica by replica,
because "offline" does not help at night: which replica could lead if its broker came back, which one lost its
seat and why, and which one is alive but may lack acknowledged records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice

import msgspec

from controller.core.draft import Draft
from controller.core.effects import Alarm, AlarmCode, AlarmKey, ClearAlarm, MoreAlarms
from controller.core.image import ClusterImage
from controller.core.records import PartitionRecord, Record, RemoveTopicRecord, TopicRecord
from springtide.contract.lag_report import ProblemCode
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState
from springtide.contract.session import ClockLeap

_PARTITION_CODES = (
    AlarmCode.PARTITION_LEADERLESS,
    AlarmCode.PARTITION_BELOW_MIN_ISR,
    AlarmCode.PARTITION_RECOVERING,
)
#: A certificate that ends sooner is an alarm.
CERTIFICATE_WARNING_MS = 14 * 24 * 3_600_000
#: Partition alarms of one code that a step tells of one by one: a dead broker may raise one a partition.
ALARMS_TOLD_PER_STEP_MAX = 5
_SEVERITY = {code: rank for rank, code in enumerate(AlarmCode)}

#: The faults of a broker that other alarms follow from, the deepest cause first, and which alarms of the same
#: broker and of its replicas do. Partitions may follow from each (`_cause_of_partition`).
FOLLOWING = {
    AlarmCode.LOG_DIRS_OFFLINE: (
        AlarmCode.STORAGE_ERROR,
        AlarmCode.BROKER_FENCED,
        AlarmCode.DISK_BELOW_RESERVE,
        AlarmCode.DISK_FULL,
        AlarmCode.DISK_FILLS,
    ),
    AlarmCode.BROKER_FENCED: (),
    AlarmCode.BROKER_STOPPED: (),
    AlarmCode.DISK_BELOW_RESERVE: (AlarmCode.STORAGE_ERROR, AlarmCode.THROTTLED_BELOW_PRODUCE_RATE),
}

#: What brokers' problem codes are alarmed as. `divergent` is only noted: writing a suffix aside before a
#: truncation is what should happen after a failover with unacknowledged records.
PROBLEM_ALARMS = {
    ProblemCode.LOG_MISSING: AlarmCode.LOG_MISSING,
    ProblemCode.LOG_SHORT: AlarmCode.LOG_SHORT,
    ProblemCode.STORAGE_ERROR: AlarmCode.STORAGE_ERROR,
    ProblemCode.QUARANTINED: AlarmCode.REPLICA_QUARANTINED,
    ProblemCode.ROTTEN: AlarmCode.REPLICA_ROTTEN,
    ProblemCode.BATCH_REFUSED: AlarmCode.BATCH_REFUSED,
}


class ReplicaVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a partition without a leader. standing: in_sync, eligible, excluded, learner or
    behind. could_lead: true when it leads as soon as its broker is back; otherwise choosing it may lose
    records."""

    broker_id: int
    standing: str
    broker_status: str
    could_lead: bool
    detail: str


def explain_replicas(image: ClusterImage, state: PartitionState) -> tuple[ReplicaVerdict, ...]:
    """Return why each replica does not lead, in assignment order; empty if the partition has a leader."""
    if state.leader != NO_LEADER:
        return ()
    return tuple(_verdict(image, state, broker_id) for broker_id in state.replicas)


def _verdict(image: ClusterImage, state: PartitionState, broker_id: int) -> ReplicaVerdict:
    broker = image.brokers.get(broker_id)
    status = "unknown" if broker is None else broker.status.value
    has_seat = broker_id in state.isr or broker_id in state.elr
    if has_seat:
        standing = "in_sync" if broker_id in state.isr else "eligible"
        holds = "holds every acknowledged record"
        if broker is None:
            detail = f"{holds} but is not registered"
        elif broker.fenced:
            detail = f"{holds} but is down: it leads as soon as it is back with its disks"
        elif broker.shutting_down:
            detail = f"{holds} but is shutting down: it leads again once restarted"
        else:
            detail = (
                f"{holds} and is live: it leads once it has reported its log, unless another reported more"
            )
    elif broker_id in state.last_known_elr:
        standing = "excluded"
        how = "" if broker is None else f" (last stop: {broker.last_shutdown.value})"
        detail = f"held a seat but could not prove that its log is whole{how}"
    elif broker_id in state.adding_replicas:
        standing = "learner"
        detail = "is being added and was not in sync yet: it may lack acknowledged records"
    else:
        standing = "behind"
        detail = "was not in sync when the last leader left: it may lack acknowledged records"
    return ReplicaVerdict(
        broker_id=broker_id, standing=standing, broker_status=status, could_lead=has_seat, detail=detail
    )


def way_on(state: PartitionState) -> str | None:
    """Return what an operator can do about a partition that has no leader and no replica that may lead. None
    if a replica that is known to hold everything will lead it again (3.5, unclean election)."""
    if state.leader != NO_LEADER or state.isr or state.elr:
        return None
    name = f"{state.topic} {state.partition}"
    return (
        "no replica can prove that it holds every acknowledged record, so none is elected. `springtide "
        f"partitions preview-loss {name}` says what each choice would lose and which loses least; "
        f"`springtide elect-leader {name} --election-type unclean --partition-epoch {state.partition_epoch} "
        "--broker-id ID --reason WHY` chooses"
    )


def describe(code: AlarmCode, image: ClusterImage, state: PartitionState) -> str:
    name = f"{state.topic}-{state.partition}"
    match code:
        case AlarmCode.PARTITION_LEADERLESS:
            replicas = "; ".join(
                f"{image.name_of(v.broker_id)} [{v.standing}, {v.broker_status}] {v.detail}"
                for v in explain_replicas(image, state)
            )
            last = "none" if state.last_known_leader == NO_LEADER else str(state.last_known_leader)
            todo = way_on(state)
            if any(image.is_eligible(b) for b in state.elr):  # it has not told yet, or another told of more
                todo = (
                    f"`springtide partitions preview-loss {state.topic} {state.partition}` names the way out"
                )
            return f"{name} has no leader (last leader: {last}): {replicas}" + (f"; {todo}" if todo else "")
        case AlarmCode.PARTITION_BELOW_MIN_ISR:
            return (
                f"{name} has {len(state.isr)} in sync of {len(state.replicas)}, "
                f"needs {state.min_insync_replicas}: writes with acks=all are refused"
            )
        case _:
            leader = image.name_of(state.leader)
            return f"{name}: {leader} was elected uncleanly and has not confirmed its log yet"


def describe_leap(broker: str | None, leap: ClockLeap) -> str:
    """Describe the leap in whole minutes, so that the words change only with the clocks. Without a
    broker's name it is the controller's."""
    who, other = ("the controller", "ZooKeeper") if broker is None else (broker, "the controller")
    found = f"{_ahead(leap.ahead_of_controller_ms)} {other}'s"
    if leap.ahead_of_elapsed_ms is not None:
        found += f" and {_ahead(leap.ahead_of_elapsed_ms)} the time that has passed since clocks agreed"
    effect = (
        "the controller removes no row of the audit, no kept answer and no plan; is NTP running on the "
        "controllers and on ZooKeeper's servers?"
        if broker is None
        else "that broker deletes nothing by time and forgets no idle producer; is NTP running on it and on "
        "the controllers?"
    )
    return f"{who}'s wall clock is {found}: one of them is wrong. Until they agree {effect}"


def utc_text(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _ahead(ms: int) -> str:
    days, minutes = divmod((abs(ms) + 30_000) // 60_000, 24 * 60)
    if not days and not minutes:
        return "level with"
    return f"{days} d {minutes // 60} h {minutes % 60} min {'ahead of' if ms > 0 else 'behind'}"


class AlarmBook:
    """The alarms that are up. At most one per key; replica and broker alarms are bounded by `alarms_max`."""

    __slots__ = ("_alarms_max", "_others", "_partitions", "_troubled", "_unproven")

    def __init__(self, *, alarms_max: int) -> None:
        self._alarms_max = alarms_max
        self._partitions: dict[AlarmCode, dict[PartitionKey, None]] = {c: {} for c in _PARTITION_CODES}
        self._others: dict[AlarmKey, str] = {}
        #: Partitions with replica alarms, and those alarms.
        self._troubled: dict[PartitionKey, dict[AlarmKey, None]] = {}
        #: By broker, where it lost a seat unproven and is not in sync yet.
        self._unproven: dict[int, dict[PartitionKey, None]] = {}

    def raise_alarm(self, draft: Draft, key: AlarmKey, detail: str) -> None:
        if self._others.get(key) == detail:
            return
        if key not in self._others and len(self._others) >= self._alarms_max:
            draft.note("alarms_dropped", f"more than {self._alarms_max} alarms: {detail}")
            return
        if key.partition_key is not None:
            self._troubled.setdefault(key.partition_key, {})[key] = None
        self._others[key] = detail
        draft.effects.append(Alarm(key=key, detail=detail))

    def is_up(self, key: AlarmKey) -> bool:
        """Return whether a replica's, broker's, member's or group's alarm is up."""
        return key in self._others

    def clear_alarm(self, draft: Draft, key: AlarmKey) -> None:
        if self._others.pop(key, None) is not None:
            if key.partition_key is not None:
                del self._troubled[key.partition_key][key]
                if not self._troubled[key.partition_key]:
                    del self._troubled[key.partition_key]
            draft.effects.append(ClearAlarm(key=key))

    def on_clocks(self, draft: Draft, broker_id: int | None, leap: ClockLeap | None) -> None:
        """Note what a broker reports of its clocks, or with None this controller of its own."""
        key = AlarmKey(code=AlarmCode.CLOCK_LEAP, broker_id=broker_id)
        if leap is None:
            self.clear_alarm(draft, key)
        else:
            broker = None if broker_id is None else draft.image.name_of(broker_id)
            self.raise_alarm(draft, key, describe_leap(broker, leap))

    def on_webhooks(self, draft: Draft, failing: str | None) -> None:
        """Note which webhooks take no messages; None: each does."""
        key = AlarmKey(code=AlarmCode.WEBHOOK_FAILS)
        if failing is None:
            self.clear_alarm(draft, key)
        else:
            todo = "`springtide webhooks list` says why"
            self.raise_alarm(draft, key, f"alarms do not reach the webhooks {failing}: {todo}")

    def on_certificate(self, draft: Draft, node: str, node_id: int, ends_ms: int) -> None:
        """Note when the first certificate of a broker's or coordinator's listeners ends; -1: it has none.
        node: its name."""
        expires, expired = (
            AlarmKey(code=code, broker_id=node_id)
            for code in (AlarmCode.CERTIFICATE_EXPIRES, AlarmCode.CERTIFICATE_EXPIRED)
        )
        left_ms = ends_ms - draft.wall_ms
        if ends_ms < 0 or left_ms > 0:
            self.clear_alarm(draft, expired)
        if ends_ms < 0 or not 0 < left_ms <= CERTIFICATE_WARNING_MS:
            self.clear_alarm(draft, expires)
        if ends_ms < 0 or left_ms > CERTIFICATE_WARNING_MS:
            return
        todo = "write the renewed one over the file of ssl.keystore.location; it needs no restart"
        if left_ms > 0:
            detail = f"ends at {utc_text(ends_ms)}, and new connections fail from then on: {todo}"
            self.raise_alarm(draft, expires, f"a certificate of {node} {detail}")
        else:
            detail = f"has ended at {utc_text(ends_ms)}: new connections to {node} fail. To mend it, {todo}"
            self.raise_alarm(draft, expired, f"a certificate of {node} {detail}")

    def raise_unproven(self, draft: Draft, broker_id: int, keys: Iterable[PartitionKey], detail: str) -> None:
        """Raise the alarm that a broker lost seats and may lack records; it stays until all are in sync."""
        self._unproven.setdefault(broker_id, {}).update(dict.fromkeys(keys))
        self.raise_alarm(draft, AlarmKey(code=AlarmCode.LOGS_UNPROVEN, broker_id=broker_id), detail)

    def _settle_unproven(self, draft: Draft, key: PartitionKey, *, whole: Collection[int] | None) -> None:
        """No longer count this partition as unproven for the brokers in `whole`, or, if None, for any."""
        for broker_id, keys in list(self._unproven.items()):
            if whole is None or broker_id in whole:
                keys.pop(key, None)
            if not keys:
                del self._unproven[broker_id]
                self.clear_alarm(draft, AlarmKey(code=AlarmCode.LOGS_UNPROVEN, broker_id=broker_id))

    def clear_rot(self, draft: Draft, broker_id: int) -> None:
        """Clear what earlier processes of this broker told of rotten logs: a process that finds them rotten
        still tells it with its first states, and one on a new disk has other logs."""
        for key in [key for key in self._others if key.broker_id == broker_id]:
            if key.code is AlarmCode.REPLICA_ROTTEN:
                self.clear_alarm(draft, key)

    def clear_broker(self, draft: Draft, broker_id: int) -> None:
        """Clear all alarms about a broker that was removed, and about its replicas."""
        self._unproven.pop(broker_id, None)
        for key in [key for key in self._others if key.broker_id == broker_id]:
            self.clear_alarm(draft, key)

    def refresh_all(self, draft: Draft) -> None:
        image = draft.image
        told = _Told(draft)
        for key in {**image.leaderless, **image.below_min, **image.recovering}:
            self._refresh(draft, key, told)
        told.close()

    def refresh(self, draft: Draft, records: Iterable[Record]) -> None:
        """Bring alarms in line with what a step wrote."""
        changed: dict[PartitionKey, None] = {}
        for record in records:
            match record:
                case PartitionRecord():
                    changed[(record.state.topic_id, record.state.partition)] = None
                case TopicRecord() if record.state.deleting:
                    for number in range(record.state.partitions):
                        changed[(record.state.topic_id, number)] = None
                    self._forget_topic(draft, record.state.topic_id)
                case RemoveTopicRecord():
                    self._forget_topic(draft, record.topic_id)
                case _:
                    pass
        image = draft.image
        if (
            self._troubled
            or self._unproven
            or any(self._partitions.values())
            or image.leaderless
            or image.below_min
            or image.recovering
        ):
            told = _Told(draft)
            for key in changed:
                self._refresh(draft, key, told)
            told.close()

    def _refresh(self, draft: Draft, key: PartitionKey, told: _Told) -> None:
        image = draft.image
        for code, present in (
            (AlarmCode.PARTITION_LEADERLESS, image.leaderless),
            (AlarmCode.PARTITION_BELOW_MIN_ISR, image.below_min),
            (AlarmCode.PARTITION_RECOVERING, image.recovering),
        ):
            up = self._partitions[code]
            if key in present:
                up[key] = None
                told.on_raised(code, key)
            elif key in up:
                del up[key]
                told.on_cleared(code, key)
        state = image.partitions.get(key)
        if self._unproven:
            gone = () if state is None else [b for b in self._unproven if b not in state.replicas]
            self._settle_unproven(draft, key, whole=None if state is None else (*state.isr, *gone))
        if state is not None and key in self._troubled:
            for alarm in list(self._troubled[key]):
                # A replica in sync is whole again, and one that was moved away matters no more. But a rotten
                # replica that leads kept its seat only because no other could lead.
                is_kept = alarm.code is AlarmCode.REPLICA_ROTTEN and alarm.broker_id == state.leader
                if (alarm.broker_id in state.isr and not is_kept) or alarm.broker_id not in state.replicas:
                    self.clear_alarm(draft, alarm)

    def _forget_topic(self, draft: Draft, topic_id: str) -> None:
        for key in [key for key in self._others if key.topic_id == topic_id]:
            self.clear_alarm(draft, key)
        for keys in list(self._unproven.values()):
            for partition in [partition for partition in keys if partition[0] == topic_id]:
                self._settle_unproven(draft, partition, whole=None)

    def _causes(self) -> dict[int, AlarmKey]:
        """Return, by broker, its fault that is up: the deepest, if there are several."""
        depth = {code: at for at, code in enumerate(FOLLOWING)}
        up = [key for key in self._others if key.code in depth and key.broker_id is not None]
        up.sort(key=lambda key: depth[key.code], reverse=True)
        return {key.broker_id: key for key in up if key.broker_id is not None}

    def _following(self, causes: Mapping[int, AlarmKey]) -> dict[AlarmKey, AlarmKey]:
        """Return the alarms of brokers and replicas that only follow from another one that is up, and that
        one: of a broker without a log directory each replica has an alarm, and one fault is to be mended."""
        found = {}
        for key in self._others if causes else ():
            cause = None if key.broker_id is None else causes.get(key.broker_id)
            if cause is not None and key.code in FOLLOWING[cause.code]:
                found[key] = cause
        return found

    def alarms(self, image: ClusterImage) -> tuple[Alarm, ...]:
        """Return every current alarm, most severe first, with partitions described as they are now. What only
        follows from another is counted there."""
        causes = self._causes()
        following = self._following(causes)
        follows: dict[AlarmKey, dict[AlarmCode, int]] = {}

        def count(code: AlarmCode, cause: AlarmKey) -> None:
            counts = follows.setdefault(cause, {})
            counts[code] = counts.get(code, 0) + 1

        for key, cause in following.items():
            count(key.code, cause)
        listed = []
        for code, keys in self._partitions.items():
            for partition in keys:
                state = image.partitions[partition]
                found = _cause_of_partition(code, state, causes) if causes else None
                if found is not None:
                    count(code, found)
                else:
                    alarm = _partition_alarm(code, partition)
                    listed.append(Alarm(key=alarm, detail=describe(code, image, state)))
        listed += [
            Alarm(key=key, detail=detail, follows=follows.get(key, {}))
            for key, detail in self._others.items()
            if key not in following
        ]
        return tuple(sorted(listed, key=alarm_order))

    def first_alarms(self, image: ClusterImage, each_max: int) -> tuple[Alarm, ...]:
        """Return up to each_max alarms of each code, the oldest, and describe no others."""
        causes = self._causes()
        following = self._following(causes)
        listed = []
        for code, keys in self._partitions.items():
            states = (image.partitions[key] for key in keys)
            unfolded = (state for state in states if _cause_of_partition(code, state, causes) is None)
            for state in islice(unfolded, each_max):
                alarm = _partition_alarm(code, (state.topic_id, state.partition))
                listed.append(Alarm(key=alarm, detail=describe(code, image, state)))
        room: dict[AlarmCode, int] = {}
        for key, detail in self._others.items():
            if key not in following and room.setdefault(key.code, each_max) > 0:
                room[key.code] -= 1
                listed.append(Alarm(key=key, detail=detail))
        return tuple(listed)

    def counts(self) -> dict[AlarmCode, int]:
        """Return how many alarms of each code there are, without describing them. Partitions are all counted:
        that clients are refused must call an operator, also where it follows from a fault."""
        found = {code: len(self._partitions.get(code, ())) for code in AlarmCode}
        following = self._following(self._causes())
        for key in self._others:
            found[key.code] += key not in following
        return found


def _cause_of_partition(
    code: AlarmCode, state: PartitionState, causes: Mapping[int, AlarmKey]
) -> AlarmKey | None:
    """Return the fault from which the partition's trouble follows, which ends when that is mended. None: it
    has another cause, or needs an operator's choice.

    With a leader: each replica that is out of sync is on a broker with a fault. Without: each replica that
    provably holds everything is."""
    if code is AlarmCode.PARTITION_RECOVERING:
        return None
    if state.leader == NO_LEADER:
        missing = [*state.isr, *state.elr]
    else:
        missing = [broker_id for broker_id in state.replicas if broker_id not in state.isr]
    found = [causes.get(broker_id) for broker_id in missing]
    return found[0] if found and None not in found else None


class _Told:
    """One step's partition alarms, to be told: the first few of each code in words, the others as a count."""

    __slots__ = ("_counts", "_draft")

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._counts: dict[tuple[AlarmCode, bool], int] = {}

    def on_raised(self, code: AlarmCode, key: PartitionKey) -> None:
        if self._may_tell(code, is_cleared=False):
            detail = describe(code, self._draft.image, self._draft.image.partitions[key])
            self._draft.effects.append(Alarm(key=_partition_alarm(code, key), detail=detail))

    def on_cleared(self, code: AlarmCode, key: PartitionKey) -> None:
        if self._may_tell(code, is_cleared=True):
            self._draft.effects.append(ClearAlarm(key=_partition_alarm(code, key)))

    def _may_tell(self, code: AlarmCode, *, is_cleared: bool) -> bool:
        count = self._counts.get((code, is_cleared), 0) + 1
        self._counts[(code, is_cleared)] = count
        return count <= ALARMS_TOLD_PER_STEP_MAX

    def close(self) -> None:
        for (code, is_cleared), count in self._counts.items():
            more = count - ALARMS_TOLD_PER_STEP_MAX
            if more > 0:
                self._draft.effects.append(MoreAlarms(code=code, is_cleared=is_cleared, count=more))


def alarm_order(alarm: Alarm) -> tuple[int, str, int, int]:
    """Most severe first, and an alarm is as severe as the worst that follows from it; no two are equal in it,
    and no number in it is negative. A client's id may be longer than what a page's token has room for, so its
    digest stands for it."""
    key = alarm.key
    worst = min(_SEVERITY[code] for code in (key.code, *alarm.follows))
    client = key.group_id if key.transactional_id is None else key.transactional_id
    digest = "" if client is None else hashlib.sha256(client.encode()).hexdigest()[:32]
    producer = "" if key.producer_id is None else str(key.producer_id)
    return (
        worst * len(_SEVERITY) + _SEVERITY[key.code],
        key.topic_id or digest or producer,
        0 if key.partition is None else key.partition + 1,
        0 if key.broker_id is None else key.broker_id + 1,
    )


def _partition_alarm(code: AlarmCode, key: PartitionKey) -> AlarmKey:
    return AlarmKey(code=code, topic_id=key[0], partition=key[1])


def replica_alarm(code: AlarmCode, key: PartitionKey, broker_id: int) -> AlarmKey:
    return AlarmKey(code=code, topic_id=key[0], partition=key[1], broker_id=broker_id)
