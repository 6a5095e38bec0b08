"""A `core_cluster` that is told in a script what happens, and writes down what the core answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from controller.core.effects import Alarm, ClearAlarm, Effect, MoreAlarms, ProbeBroker
from controller.core.events import ElectPreferred, ElectUnclean, Event, Report
from controller.core.machine import Step
from controller.core.options import ControllerOptions
from controller.core.records import ACTOR_CONTROLLER, MemberRecord, PartitionRecord
from springtide.contract.lag_report import LagReport, LagReportResponse, ProblemCode, ReplicaProblem
from springtide.contract.partition_state import LeaderRecovery
from springtide.contract.session import BrokerStatus, HeartbeatResponse, ShutdownKind
from tests.kit.controller.core_cluster import Cluster, topic_id

#: Told by a line's beginning.
LEFT_OUT = ("leader_epoch", "partition_epoch")
NEW = ("leader", "isr", "broker_epoch", "admitted", "fenced")


class Scripted(Cluster):
    """Three brokers; `play` says what happens. transcript: each command, and below it what the core answered,
    the rows it wrote and the effects it asked for. Of a row what has changed; a partition's with its leader
    and partition epochs; of a new one, who leads and is in sync."""

    def __init__(self, options: ControllerOptions | None = None) -> None:
        self.transcript: list[str] = []
        self._answers: list[str] = []
        self._answer = ""
        self._in_command = True
        self._shown: dict[str, dict[str, object]] = {}
        super().__init__(options)
        self._in_command = False

    def play(self, script: str) -> str:
        """Carry out the commands, one a line or a semicolon; return the last answer: an error, "none", or a
        broker's status."""
        for command in filter(None, map(str.strip, script.replace("\n", ";").split(";"))):
            self._record(command, partial(self._act, *command.split()))
        return self._answer

    def _act(self, name: str, *words: str) -> None:
        match name:
            case "create":  # replicas of each partition; settings
                configs = dict(word.split("=", 1) for word in words if "=" in word)
                self.create(*(_ids(word) for word in words if "=" not in word), configs=configs)
            case "isr":  # as the leader proposes it; "recovered" or "recovering"
                self.propose(*_ids(words[0]), recovery=LeaderRecovery(words[1]) if words[1:] else None)
            case "kill":
                self.kill(*_ids(words[0]))
            case "restart":  # and how it stopped
                self.restart(int(words[0]), "b", *map(ShutdownKind, words[1:]))
            case "beat" if words[0] == "all":
                self.beat_all()
            case "beat":  # and what it has applied, if not all
                for broker_id in _ids(words[0]):
                    self.heartbeat(broker_id, applied=int(words[1]) if words[1:] else None)
            case "stop":  # a heartbeat that asks to stop
                for broker_id in _ids(words[0]):
                    self.heartbeat(broker_id, wants_shutdown=True)
            case "created":  # brokers; which partitions' logs, all if none is named
                for broker_id in _ids(words[0]):
                    self.created(broker_id, *map(int, words[1:]))
            case "reports":  # problems of the first partition
                self.reports(int(words[0]), *words[1:])
            case "unclean":
                self.step(self.unclean(int(words[0])))
            case "preferred":
                self.step(ElectPreferred(wall_ms=0, actor="ann", topic_id=topic_id(), partition=0))
            case "wait":  # without a tick
                self.now_ms += int(words[0])
            case "pass":
                self.pass_ms(int(words[0]))
            case "run":  # so many ms with beats
                for _ in range(int(words[0]) // 500):
                    self.now_ms += 500
                    self.beat_all()
                    self.pass_ms(0)
            case "fail-over":
                self.fail_over()
            case _:
                raise ValueError(name)

    def reports(self, teller: int, *codes: str, **fields: int) -> None:
        """The broker tells of problems, under the present leader epoch unless another is given."""
        named = {"leader_epoch": self.partition().leader_epoch, **fields}
        told = tuple(
            ReplicaProblem(
                topic_id=topic_id(),
                partition=0,
                code=ProblemCode(code),
                detail="offset 7",
                **named,  # type: ignore[arg-type]
            )
            for code in codes
        )
        epoch = self.broker(teller).broker_epoch
        request = LagReport(broker_id=teller, broker_epoch=epoch, problems=told)
        self.step(Report(wall_ms=0, request=request))

    def unclean(self, broker_id: int = 3, **fields: object) -> ElectUnclean:
        """Return what elects the broker from the partition's present state, unless `fields` has another."""
        values = {"partition_epoch": self.partition().partition_epoch, **fields}
        return ElectUnclean(
            wall_ms=0,
            actor="ann",
            reason="lost store1",
            topic_id=topic_id(),
            partition=0,
            broker_id=broker_id,
            **values,  # type: ignore[arg-type]
        )

    def step(self, event: Event) -> Step:
        if not self._in_command:
            sender = getattr(getattr(event, "request", event), "broker_id", "ann")
            self._record(f"({type(event).__name__} of {sender})", partial(self.step, event))
            return self.last
        step = super().step(event)
        reply: object = step.reply
        if isinstance(reply, LagReportResponse) and reply.results:
            (reply,) = reply.results
        self._answer = str(getattr(reply, "error", getattr(reply, "code", "none")))
        told = [] if self._answer == "none" else [f"answer: {self._answer}"]
        if isinstance(reply, HeartbeatResponse) and self._answer == "none":
            self._answer = "may stop" if reply.may_shut_down else reply.status
            leads = f", leads {reply.remaining_leaderships}" if reply.remaining_leaderships else ""
            told = [f"answer: {self._answer}{leads}"] if reply.status is not BrokerStatus.ACTIVE else []
        rows = [
            self._written(record)
            for record in step.records
            if isinstance(record, PartitionRecord | MemberRecord)
        ]
        asked = [f"asks: {', '.join(map(_asked, step.effects))}"] if step.effects else []
        self._answers += [*told, *rows, *asked]
        return step

    def _record(self, command: str, act: Callable[[], object]) -> None:
        self._in_command, self._answers = True, []
        act()
        self._in_command = False
        self.transcript += [command, *(f"    {line}" for line in self._answers or ["nothing"])]

    def _written(self, record: PartitionRecord | MemberRecord) -> str:
        if isinstance(record, PartitionRecord):
            row: msgspec.Struct = record.state
            subject = f"{record.state.topic}/{record.state.partition}"
            epochs = f" at {record.state.leader_epoch}.{record.state.partition_epoch}"
        else:
            row, subject, epochs = record.registration, record.registration.name, ""
        now = msgspec.structs.asdict(row)
        before, self._shown[subject] = self._shown.get(subject), now
        names = [name for name in now if (now[name] != before[name] if before else name in NEW)]
        changes = ", ".join(f"{name} {_word(now[name])}" for name in names if name not in LEFT_OUT)
        by = "" if record.change.actor == ACTOR_CONTROLLER else f" by {record.change.actor}"
        return f"{subject}{epochs}: {changes or 'the same'} [{record.change.cause}{by}]"


def _word(value: object) -> object:
    return ",".join(map(str, value)) or "none" if isinstance(value, tuple) else value


def _asked(effect: Effect) -> str:
    match effect:
        case Alarm(key=key) | ClearAlarm(key=key):
            of = "" if key.broker_id is None else f" of broker {key.broker_id}"
            return f"{'alarm' if isinstance(effect, Alarm) else 'clear'} {key.code}{of}"
        case MoreAlarms():
            return f"{'clear' if effect.is_cleared else 'alarm'} {effect.count} more {effect.code}"
        case ProbeBroker():
            return f"probe broker {effect.broker_id}"
        case _:
            return f"note {effect.code}"


def _ids(word: str) -> tuple[int, ...]:
    return tuple(map(int, word.split(",")))
