"""Every moment at which a crash could strike: before and after each operation of the disk, while the storage
engine works, and while it recovers from an earlier crash.

At each of them the disk is asked what a power cut, or a kill, might leave; the real recovery opens that; and
what it finds is held against the ledger. The method is that of ALICE (Pillai and others, 2014), with the
states drawn at random, as one moment alone has more of them than anyone can try.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from springtide.contract.session import ShutdownKind
from tests.kit.memory.disk import MemoryDisk
from tests.powercuts.ledger import Ledger
from tests.powercuts.verdict import Recovered, differences, judge, recover
from tests.powercuts.workload import Workload

PATH = "/data"
STEPS = 70
FAILURES_MAX = 20

LOOK_SHARE = 0.25
"""At so many moments of one workload: another workload shows more than another moment of the same."""
KILL_SHARE = 0.2
"""So many states are those of a killed process; the others, of a power cut."""
AGAIN_SHARE = 0.25
"""So many recoveries are repeated on the same bytes, after a second crash, and after a kill before they were
registered."""
SAME_BOOT_SHARE = 0.3
"""So many power cuts are those of a volume alone: it comes back under the same kernel."""
DURING_RECOVERY_SHARE = 0.04
"""So many recoveries are cut short, at each of their own operations with DURING_SHARE."""
DURING_SHARE = 0.2


@dataclass(slots=True)
class Explored:
    """states: recoveries that were judged. by_kind: of which crash they were."""

    seed: int
    states: int = 0
    steps: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def count(self, kind: str) -> None:
        self.states += 1
        self.by_kind[kind] = self.by_kind.get(kind, 0) + 1


def explore(seed: int, *, steps: int = STEPS, failures_max: int = FAILURES_MAX) -> Explored:
    """One workload, and the crash states along its way. Ends early with so many failures."""
    explored = Explored(seed)
    random = Random(f"crash states {seed}")
    disk = MemoryDisk()
    ledger = Ledger()
    explorer = _Explorer(disk, ledger, random, explored, failures_max)
    disk.on_operation = explorer.look
    try:
        workload = Workload(disk, PATH, seed, ledger)
        for _ in range(steps):
            workload.step()
            explored.steps += 1
    except _EnoughSeen:
        pass
    except Exception as error:  # the workload itself recovers too, from a kill or a clean stop
        explored.failures.append(f"workload: {type(error).__name__}: {error}")
    return explored


class _EnoughSeen(Exception):
    pass


class _Explorer:
    def __init__(
        self, disk: MemoryDisk, ledger: Ledger, random: Random, explored: Explored, failures_max: int
    ) -> None:
        self.disk = disk
        self.ledger = ledger
        self.random = random
        self.explored = explored
        self.failures_max = failures_max
        self.moment = 0

    def look(self, operation: str, path: str, is_done: bool) -> None:
        self.moment += 1
        if self.random.random() >= LOOK_SHARE:
            return
        where = f"seed {self.explored.seed}, {'after' if is_done else 'before'} {operation} of {path}"
        state_seed = f"{self.explored.seed} {self.moment}"
        is_power_cut = self.random.random() >= KILL_SHARE
        image = _image(self.disk, Random(state_seed), is_power_cut=is_power_cut)
        self._try(image, "power cut" if is_power_cut else "kill", where, is_power_cut=is_power_cut)

    def _try(self, image: MemoryDisk, kind: str, where: str, *, is_power_cut: bool) -> None:
        if self.random.random() < DURING_RECOVERY_SHARE:
            self._during_recovery(image, where, is_power_cut=is_power_cut)
            return
        is_same_boot = is_power_cut and self.random.random() < SAME_BOOT_SHARE
        kind = "volume back" if is_same_boot else kind
        is_repeated = self.random.random() < AGAIN_SHARE
        twin = image.process_crash_image(self.random) if is_repeated else None
        found = self._judged(image, kind, where, is_power_cut=is_power_cut, is_same_boot=is_same_boot)
        if twin is None:
            return
        self._same(found, twin, f"{kind}, recovered twice", where, is_power_cut=is_power_cut)
        unregistered = image.process_crash_image(self.random)
        again = recover(unregistered, PATH, is_power_cut=is_power_cut, is_same_boot=is_same_boot)
        self.explored.count("killed before it was registered")
        if found.kind is ShutdownKind.MACHINE_CRASH and again.kind is not found.kind:
            self._note([f"kind: {found.kind} was told nobody, and is {again.kind} now"], where, kind)
        second = _image(image, self.random, is_power_cut=True)
        self._same(found, second, "power cut after recovery", where, is_power_cut=True)

    def _judged(
        self, image: MemoryDisk, kind: str, where: str, *, is_power_cut: bool, is_same_boot: bool
    ) -> Recovered:
        found = recover(image, PATH, is_power_cut=is_power_cut, is_same_boot=is_same_boot)
        self.explored.count(kind)
        self._note(judge(found, self.ledger.expected(), is_power_cut=is_power_cut), where, kind)
        return found

    def _same(
        self, found: Recovered, image: MemoryDisk, kind: str, where: str, *, is_power_cut: bool
    ) -> None:
        again = recover(image, PATH, is_power_cut=is_power_cut)
        self.explored.count(kind)
        self._note(differences(found, again, self.ledger.expected()), where, kind)

    def _during_recovery(self, image: MemoryDisk, where: str, *, is_power_cut: bool) -> None:
        """The power fails again, while the first crash is being recovered from."""

        def look(operation: str, path: str, is_done: bool) -> None:
            if self.random.random() >= DURING_SHARE:
                return
            second = _image(image, self.random, is_power_cut=True)
            when = f"{where}, then {'after' if is_done else 'before'} {operation} of {path} in recovery"
            found = recover(second, PATH, is_power_cut=True)
            self.explored.count("power cut during recovery")
            expected = self.ledger.expected()
            wrong = judge(found, expected, is_power_cut=True)
            # The first start has deleted a marker, or not yet.
            self._note([line for line in wrong if not line.startswith("kind:")], when, "during recovery")

        image.on_operation = look
        recover(image, PATH, is_power_cut=is_power_cut)

    def _note(self, wrong: list[str], where: str, kind: str) -> None:
        self.explored.failures += [f"{line} [{kind}: {where}]" for line in wrong]
        if len(self.explored.failures) >= self.failures_max:
            raise _EnoughSeen


def _image(disk: MemoryDisk, random: Random, *, is_power_cut: bool) -> MemoryDisk:
    make: Callable[[Random], MemoryDisk] = disk.power_cut_image if is_power_cut else disk.process_crash_image
    return make(random)
