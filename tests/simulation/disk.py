"""What the disk of a simulated broker keeps, and what it says of the process before."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dataplane.core.broker import LastKnown
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.holdings import SetAsideLog
from springtide.contract.partition_state import PartitionKey
from springtide.contract.session import ShutdownKind
from springtide.node.controller_client import UNTOLD, Seen
from tests.kit.memory.log import MemoryLog


@dataclass(slots=True)
class Disk:
    """What survives the process. A machine crash cuts each log back to a legal point at or past its last
    flush; a replaced disk is a new Disk."""

    directory_id: str
    boot_id: int = 0
    logs: dict[PartitionKey, MemoryLog] = field(default_factory=dict)
    high_watermarks: dict[PartitionKey, int] = field(default_factory=dict)
    cluster_id: str | None = None
    broker_epoch: int = -1
    last_boot_id: int = 0
    #: Set by a registered incarnation; only in memory, so it goes with the mount.
    has_mount_mark: bool = False
    #: An older copy lies over the files that this process wrote, which shows by the fresh mark.
    is_written_over: bool = False
    #: The same, and nothing shows it.
    is_forged: bool = False
    clean_marker: int | None = None
    unanswered: tuple[str, ...] = ()
    asides: int = 0
    quarantined: dict[PartitionKey, MemoryLog] = field(default_factory=dict)
    #: Of those that are whole, what was written beside them.
    notes: dict[PartitionKey, SetAsideLog] = field(default_factory=dict)
    seen: Seen = UNTOLD
    #: What every write fails with; whether an fsync hangs (S28, EIO or full disk; S29, an fsync hangs).
    failing: str | None = None
    hung: bool = False

    def copy(self) -> Disk:
        """As a backup would have it, byte for byte; what is wrong with the disk is not on it."""
        return replace(
            self,
            failing=None,
            hung=False,
            has_mount_mark=False,
            logs={key: log.copy() for key, log in self.logs.items()},
            high_watermarks=dict(self.high_watermarks),
            quarantined={key: log.copy() for key, log in self.quarantined.items()},
            notes=dict(self.notes),
        )

    def set_aside(self, key: PartitionKey, known: LastKnown) -> None:
        """Whole, with what is known of it."""
        topic, state = known.topic_state, known.state
        self.high_watermarks.pop(key, None)
        log = self.quarantined[key] = self.logs.pop(key)
        self.notes[key] = SetAsideLog(
            directory=f"{key[0]}-{key[1]}",
            topic_id=key[0],
            topic=key[0] if topic is None else topic.topic,
            partition=key[1],
            why="not mentioned",
            leader_epoch=LeaderEpoch(max(log.epochs.latest, -1 if state is None else state.leader_epoch)),
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=known.high_watermark,
            is_whole=True,
            state=state,
            topic_state=topic,
        )

    def take_up(self, key: PartitionKey) -> None:
        note = self.notes.pop(key)
        log = self.logs[key] = self.quarantined.pop(key)
        log.failing = self.failing  # which may have changed since
        self.high_watermarks[key] = note.high_watermark

    def held(self, key: PartitionKey) -> MemoryLog | None:
        """The log of a partition, wherever it lies."""
        return self.logs.get(key) or (self.quarantined[key] if key in self.notes else None)

    def fail(self, detail: str | None) -> None:
        """From now on every write fails; or, with None, none does."""
        self.failing = detail
        for log in self.logs.values():
            log.failing = detail

    def shutdown_kind(self) -> ShutdownKind:
        if self.broker_epoch < 0:
            return ShutdownKind.FIRST_START
        if self.clean_marker == self.broker_epoch:
            return ShutdownKind.CLEAN
        if self.last_boot_id == self.boot_id and self.has_mount_mark and not self.is_written_over:
            return ShutdownKind.PROCESS_CRASH
        return ShutdownKind.MACHINE_CRASH
