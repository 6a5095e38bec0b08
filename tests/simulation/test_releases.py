"""Two releases in one simulated cluster: the copy of the last one, what crosses, and what is found."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.events import CreateTopic
from controller.core.records import Cause, Change, LevelRecord
from controller.shell import rows
from dataplane.core.transactions import IsolationLevel
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.session import RegisterResponse
from springtide.levels import NEWEST, Level
from springtide.node.controller_client import Seen
from tests.kit.memory.log import MemoryLog
from tests.simulation.cluster import Cluster
from tests.simulation.disk import Disk
from tests.simulation.network import Unreadable
from tests.simulation.options import draw_options, of_family
from tests.simulation.releases.crossing import received
from tests.simulation.releases.files import found
from tests.simulation.releases.mixed import LAST_LEVEL, Mixed
from tests.simulation.releases.source import DRIVERS, PREFIX, last, renamed
from tests.simulation.releases.translation import Release, release_of, translated
from tests.simulation.run import run_seed
from tests.simulation.violation import Violation
from tests.simulation.zookeeper import Znode
from tests.upgrade.last_release import is_left_out

pytestmark = pytest.mark.skipif(is_left_out(), reason="this clone lacks the last release's commit")

#: Of the family, with coordinators and without, whole runs that restart and single processes.
SEEDS = (0, 2, 20)


def test_imports_of_packages_are_renamed_and_nothing_else_is() -> None:
    source = (
        "from controller.core import topics  # from controller\n"
        "from tests.simulation.violation import Violation\n"
        "from tests.simulation import violation, clock\n"
        "import msgspec\n"
        "def late():\n"
        "    from springtide.levels import (\n        NEWEST,\n    )\n"
        "    yield from tests.values()\n"
        "TEXT = 'from controller.core import topics'\n"
    )
    assert renamed(source) == (
        "from last_controller.core import topics  # from controller\n"
        "from tests.simulation.violation import Violation\n"
        "from tests.simulation import violation, clock\n"
        "import msgspec\n"
        "def late():\n"
        "    from last_springtide.levels import (\n        NEWEST,\n    )\n"
        "    yield from tests.values()\n"
        "TEXT = 'from controller.core import topics'\n"
    )


def test_an_import_whose_uses_would_keep_the_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"line 2: 'import controller\.core'"):
        renamed("import msgspec\nimport controller.core\n")


@pytest.mark.parametrize("name", DRIVERS)
def test_the_last_release_is_made_of_its_own_classes(name: str) -> None:
    module = last(name)
    assert module.__name__ == PREFIX + name
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    assert {release_of(kind) for kind in classes} <= {Release.LAST, None}


def test_a_value_goes_to_the_last_release_and_back() -> None:
    event = CreateTopic(
        wall_ms=1,
        actor="operator",
        topic_id="t",
        topic="orders",
        partitions=2,
        replication_factor=3,
        configs={},
    )
    asked = translated(event, Release.LAST)
    assert type(asked).__module__ == "last_controller.core.events"
    assert translated(asked, Release.THIS) == event


def test_a_number_that_the_last_release_has_no_name_for_is_a_number_there() -> None:
    told = translated(IsolationLevel.READ_COMMITTED, Release.LAST)
    assert (told, type(told)) == (1, int)


def test_a_disk_goes_to_the_last_release_and_back_with_its_logs() -> None:
    disk = Disk("dir-1", logs={("t", 0): MemoryLog(log_start_offset=7)})
    other = translated(disk, Release.LAST, objects=True)
    assert type(other.logs["t", 0]).__module__ == "last_tests.kit.memory.log"
    again = translated(other, Release.THIS, objects=True)
    assert type(again.logs["t", 0]) is MemoryLog
    assert again.logs["t", 0].log_start_offset == again.logs["t", 0].log_end_offset == 7


@pytest.mark.parametrize("level", [LAST_LEVEL, NEWEST])
def test_what_a_broker_was_told_is_read_from_the_bytes_that_the_other_release_wrote(level: Level) -> None:
    seen = Seen(ControllerEpoch(3), "one", 8, level)
    other = found(Disk("dir-1", seen=seen), Release.LAST)
    assert type(other.seen).__module__ == "last_springtide.node.controller_client"
    assert other.seen == found(other, Release.THIS).seen == seen


def test_a_message_is_read_by_the_receivers_classes_or_refused() -> None:
    answer = RegisterResponse(controller_epoch=ControllerEpoch(3))
    read = received(answer, Release.LAST)
    assert type(read).__module__ == "last_springtide.contract.session"
    assert read.controller_epoch == 3
    with pytest.raises(Unreadable, match="RegisterResponse can't be read by the last release"):
        received(msgspec.structs.replace(answer, level="high"), Release.LAST)


def test_a_row_that_the_last_release_would_write_otherwise_is_a_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(0, of_family(draw_options(0), "mixed"))
    assert cluster.mixed is not None
    change = Change(cause=Cause.UPGRADE_POSSIBLE, at_ms=0)
    state = cluster.zookeeper.nodes["cluster"].value
    original = rows.encode_row
    monkeypatch.setattr(
        rows,
        "encode_row",
        lambda record, version: original(record, version).replace(b"upgrade_possible", b"of_next_year"),
    )
    with pytest.raises(Violation, match="U2: cluster is unreadable to the last release"):
        cluster.mixed.row("cluster", msgspec.structs.replace(state, change=change), Release.THIS)
    monkeypatch.setattr(
        rows,
        "encode_row",
        lambda record, version: original(record, version).replace(b'"configs":{},', b""),
    )
    with pytest.raises(Violation, match=r"U2: cluster is .*, and the last release makes"):
        cluster.mixed.row("cluster", state, Release.THIS)


def test_the_level_is_raised_once_and_only_while_all_members_are_of_this_release() -> None:
    cluster = Cluster(0, of_family(draw_options(0), "mixed"))
    mixed = cluster.mixed
    assert mixed is not None
    change = Change(cause=Cause.UPGRADE_FINALIZED, at_ms=0)

    def raised(level: int) -> None:
        record = LevelRecord(level=Level(level), change=change)
        stored = mixed.row("level", record, Release.THIS)
        cluster.zookeeper.nodes["level"] = Znode(stored.value, 0, stored.data)

    cluster.zookeeper.nodes["broker/1"] = Znode(None, 0)
    mixed.running["broker-1"] = Release.LAST
    raised(NEWEST)  # it was of the other release a moment ago
    with pytest.raises(Violation, match=f"U3: the level falls from {NEWEST} to {LAST_LEVEL}"):
        mixed.row("level", LevelRecord(level=LAST_LEVEL, change=change), Release.THIS)
    cluster.events.run(100 * cluster.options.grace_ms)
    with pytest.raises(Violation, match=f"U4: the level is raised to {NEWEST}, and broker-1 is of"):
        raised(NEWEST)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cluster_of_two_releases_holds_every_invariant(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    running: set[tuple[str, Release]] = set()
    become = Mixed._become

    def noted(mixed: Mixed, node: Cluster, release: Release) -> None:
        become(mixed, node, release)
        running.add((type(node).__name__, release))

    monkeypatch.setattr(Mixed, "_become", noted)
    verdict = run_seed(seed, options=of_family(draw_options(seed), "mixed"))
    assert verdict.failure is None, verdict.report()
    assert verdict.acked > 0
    assert {("BrokerNode", Release.LAST), ("BrokerNode", Release.THIS)} <= running
    assert {("ControllerNode", Release.LAST), ("ControllerNode", Release.THIS)} <= running
