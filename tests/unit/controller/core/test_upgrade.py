"""Feature levels in a cluster's machine: who may take part at which level, and when it may be raised."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.effects import Alarm, AlarmCode, AlarmKey, ClearAlarm
from controller.core.events import (
    AdmitBrokers,
    Blocker,
    FinalizeUpgrade,
    Process,
    Refusal,
    RefusalCode,
    RegisterMember,
    RemoveMember,
    Tick,
    UpgradeFinalized,
)
from controller.core.records import Cause, Change, LevelRecord, MemberKind, UpgradeRecord
from controller.core.stream import UpdateRange, build_range
from controller.core.upgrade import PENDING_ALARM_MS, blockers_of, target_of
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.session import RegisterRequest, RegisterResponse, ShutdownKind
from springtide.levels import NEWEST, RELEASES, SUPPORTED, UNTOLD, Level, LevelRange
from springtide.version import VERSION
from tests.kit.controller.core_cluster import Cluster

BEFORE = SUPPORTED.lowest
#: What processes of the release after, and of the release before this one can run at.
NEWER = LevelRange(NEWEST, Level(NEWEST + 1))
OLDER = LevelRange(Level(BEFORE - 1), BEFORE)
PENDING = AlarmKey(code=AlarmCode.UPGRADE_PENDING)
WALL_MS = 1_700_000_000_000
CONTROLLER = Process(
    kind="controller",
    process_id="c1",
    name="http://c1:8080",
    version=VERSION,
    levels=SUPPORTED,
    is_running=True,
    is_active=True,
)


def at_level(level: Level, *, brokers: tuple[int, ...] = ()) -> Cluster:
    """A cluster at this level, whose brokers run this release; at level 0, the one before."""
    cluster = Cluster(brokers=())
    change = Change(cause=Cause.UPGRADE_FINALIZED, at_ms=0)
    record = LevelRecord(level=level, change=change)
    cluster.image.replay(record)
    cluster.records.append(record)
    for broker_id in brokers:
        join(cluster, broker_id, OLDER if level == UNTOLD else SUPPORTED)
    return cluster


def join(cluster: Cluster, broker_id: int, levels: LevelRange = SUPPORTED) -> None:
    cluster.levels[broker_id] = levels
    assert cluster.register(broker_id).error is ControllerError.NONE
    cluster.step(AdmitBrokers(wall_ms=0, actor="ann", broker_ids=(broker_id,)))
    cluster.heartbeat(broker_id)


def finalize(
    cluster: Cluster,
    *controllers: Process,
    dry_run: bool = False,
    blockers: tuple[Blocker, ...] = (),
) -> UpgradeFinalized | Refusal:
    event = FinalizeUpgrade(
        wall_ms=0,
        actor="ann",
        controllers=controllers or (CONTROLLER,),
        blockers=blockers,
        dry_run=dry_run,
    )
    reply = cluster.step(event).reply
    assert isinstance(reply, UpgradeFinalized | Refusal)
    return reply


def tick(cluster: Cluster, wall_ms: int) -> None:
    cluster.step(Tick(wall_ms=wall_ms))


def pending_since_ms(cluster: Cluster) -> int | None:
    return cluster.image.upgrade_pending_since_ms


# --- who may take part ------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [BEFORE, NEWEST])
def test_a_process_that_can_run_at_the_level_is_accepted_and_told_it(level: Level) -> None:
    response = register(at_level(level), MemberKind.BROKER, SUPPORTED)
    assert (response.error, response.level) == (ControllerError.NONE, level)


@pytest.mark.parametrize("kind", list(MemberKind))
def test_a_process_of_a_later_release_than_the_level_allows_is_refused(kind: MemberKind) -> None:
    cluster = at_level(BEFORE)
    response = register(cluster, kind, NEWER)
    assert response.error is ControllerError.UNSUPPORTED_LEVEL
    assert (
        f"the cluster is at level {BEFORE}, and this process can run at levels {NEWEST} to" in response.detail
    )
    assert "finalize that first" in response.detail
    assert not cluster.last.records


@pytest.mark.parametrize("kind", list(MemberKind))
def test_a_process_of_release_0_1_is_refused_in_words_once_the_level_is_above_it(kind: MemberKind) -> None:
    cluster = at_level(NEWEST)
    response = register(cluster, kind, LevelRange())
    assert response.error is ControllerError.INVALID_REQUEST  # it does not know the other error
    assert f"the cluster is at level {NEWEST}, and this process runs release 0.1" in response.detail
    assert f"start it with release {RELEASES[NEWEST]}" in response.detail
    assert not cluster.last.records


def register(cluster: Cluster, kind: MemberKind, levels: LevelRange) -> RegisterResponse:
    request = RegisterRequest(
        broker_id=1,
        incarnation_id="me",
        host="h",
        port=1,
        log_dir_ids=("d",) if kind is MemberKind.BROKER else (),
        last_shutdown=ShutdownKind.FIRST_START,
        levels=levels,
    )
    return cluster.ask(RegisterMember(wall_ms=0, request=request, kind=kind), RegisterResponse)


def test_a_process_that_is_refused_keeps_the_row_of_its_predecessor() -> None:
    cluster = at_level(NEWEST, brokers=(1, 2))
    cluster.create((1, 2))
    before = cluster.broker(1), cluster.partition()
    cluster.levels[1] = OLDER
    cluster.register(1, "rolled back too late", last_shutdown=ShutdownKind.MACHINE_CRASH)
    assert (cluster.broker(1), cluster.partition()) == before


@pytest.mark.parametrize("full", [True, False])
def test_brokers_are_told_the_level_with_each_batch(full: bool) -> None:
    cluster = at_level(NEWEST, brokers=(1,))
    batch = build_range(
        cluster.image,
        UpdateRange(full, cluster.image.sequence - 1, cluster.image.sequence, False),
        controller_epoch=ControllerEpoch(1),
        broker_epoch=BrokerEpoch(1),
    )
    assert batch.level == NEWEST


# --- what rows have ---------------------------------------------------------------------------------


def test_at_level_0_a_row_has_no_levels_and_the_controller_remembers_them() -> None:
    cluster = at_level(UNTOLD, brokers=(1,))
    assert cluster.broker(1).levels is msgspec.UNSET
    assert [process.levels for process in cluster.machine.processes(cluster.now_ms)] == [OLDER]


def test_from_level_1_on_a_row_has_them_and_the_next_controller_knows_them_at_once() -> None:
    cluster = at_level(NEWEST, brokers=(1,))
    assert cluster.broker(1).levels == SUPPORTED
    cluster.fail_over()
    assert [process.levels for process in cluster.machine.processes(cluster.now_ms)] == [SUPPORTED]


def test_at_level_0_the_next_controller_learns_them_from_a_heartbeat() -> None:
    cluster = at_level(UNTOLD, brokers=(1, 2))
    cluster.fail_over()
    cluster.heartbeat(2)
    told = {one.name: one.levels for one in cluster.machine.processes(cluster.now_ms)}
    assert told == {"broker 1": None, "broker 2": OLDER}


# --- finalizing -------------------------------------------------------------------------------------


def test_finalizing_raises_the_level_by_one_record_and_again_writes_nothing() -> None:
    cluster = at_level(BEFORE, brokers=(1, 2))
    assert finalize(cluster) == UpgradeFinalized(level_before=BEFORE, level=NEWEST)
    (record,) = cluster.last.records
    assert isinstance(record, LevelRecord)
    assert (record.level, record.change.cause, record.change.actor) == (
        NEWEST,
        Cause.UPGRADE_FINALIZED,
        "ann",
    )
    assert finalize(cluster) == UpgradeFinalized(level_before=NEWEST, level=NEWEST)
    assert not cluster.last.records


def test_a_dry_run_answers_the_same_and_writes_nothing() -> None:
    cluster = at_level(BEFORE, brokers=(1,))
    assert finalize(cluster, dry_run=True) == UpgradeFinalized(
        level_before=BEFORE, level=NEWEST, dry_run=True
    )
    assert not cluster.last.records
    assert cluster.image.level == BEFORE


def test_the_level_survives_a_failover() -> None:
    cluster = at_level(BEFORE, brokers=(1,))
    finalize(cluster)
    cluster.fail_over()
    assert cluster.image.level == NEWEST


def blocked(cluster: Cluster, *controllers: Process, blockers: tuple[Blocker, ...] = ()) -> str:
    refusal = finalize(cluster, *controllers, blockers=blockers)
    assert isinstance(refusal, Refusal), "nothing stood in the way"
    assert refusal.code is RefusalCode.UPGRADE_BLOCKED
    assert not [record for record in cluster.last.records if isinstance(record, LevelRecord)]
    assert cluster.image.level < NEWEST
    return refusal.detail


def test_a_broker_of_the_old_release_stands_in_the_way() -> None:
    cluster = at_level(BEFORE, brokers=(1,))
    join(cluster, 2, OLDER)
    detail = blocked(cluster)
    assert (
        f"broker 2 can run at levels {BEFORE - 1} to {BEFORE} only: start it with release {RELEASES[NEWEST]}"
        in detail
    )
    assert "broker 1" not in detail


def test_a_fenced_broker_stands_in_the_way_although_it_has_told_its_levels() -> None:
    cluster = at_level(BEFORE, brokers=(1, 2))
    cluster.kill(2)
    assert "broker 2 is not running" in blocked(cluster)


def test_a_broker_that_is_away_when_the_controller_is_replaced_stands_in_the_way() -> None:
    cluster = at_level(BEFORE, brokers=(1, 2))
    cluster.kill(2)
    cluster.fail_over()
    cluster.heartbeat(1)
    assert "broker 2 is not running" in blocked(cluster)
    assert finalize_after_removal(cluster) == UpgradeFinalized(level_before=BEFORE, level=NEWEST)


def finalize_after_removal(cluster: Cluster) -> UpgradeFinalized | Refusal:
    cluster.step(RemoveMember(wall_ms=0, actor="ann", member_id=2))
    return finalize(cluster)


def test_a_broker_that_has_not_spoken_to_the_new_controller_stands_in_the_way() -> None:
    cluster = at_level(UNTOLD, brokers=(1,))
    cluster.fail_over()
    assert "broker 1 has not told this controller" in blocked(cluster)


def test_a_broker_that_waits_to_be_admitted_stands_in_the_way() -> None:
    cluster = at_level(BEFORE, brokers=(1,))
    cluster.levels[2] = OLDER
    cluster.register(2)
    assert "broker 2 can run at levels" in blocked(cluster)


def test_a_broker_that_is_known_by_its_replicas_alone_stands_in_the_way() -> None:
    cluster = at_level(BEFORE, brokers=(1, 2))
    cluster.create((1, 2))
    del cluster.image.brokers[2]
    assert "broker 2 has replicas and is not registered" in blocked(cluster)


def test_a_coordinator_of_the_old_release_stands_in_the_way() -> None:
    cluster = at_level(BEFORE, brokers=(2,))
    register(cluster, MemberKind.COORDINATOR, OLDER)
    assert "coordinator 1 can run at levels" in blocked(cluster)


def test_a_standby_controller_of_the_old_release_stands_in_the_way() -> None:
    cluster = at_level(BEFORE, brokers=(1,))
    standby = msgspec.structs.replace(CONTROLLER, name="http://c2:8080", levels=OLDER, is_active=False)
    assert "http://c2:8080 can run at levels" in blocked(cluster, CONTROLLER, standby)


def test_what_else_stands_in_the_way_is_named_too() -> None:
    cluster = at_level(BEFORE, brokers=(1,))
    database = Blocker(kind="database", name="the database", reason="has revision 0009")
    assert "the database has revision 0009" in blocked(cluster, blockers=(database,))


@pytest.mark.parametrize(
    ("levels", "is_blocked"),
    [
        (OLDER, True),
        (SUPPORTED, False),
        (NEWER, False),
        (LevelRange(Level(NEWEST + 1), Level(NEWEST + 2)), True),
    ],
)
def test_a_process_must_have_the_next_level_between_its_lowest_and_its_highest(
    levels: LevelRange, is_blocked: bool
) -> None:
    process = msgspec.structs.replace(CONTROLLER, levels=levels)
    assert bool(blockers_of(at_level(BEFORE).image, [process])) == is_blocked


def test_the_level_is_raised_release_by_release_and_never_above_the_highest_of_this_one() -> None:
    assert [target_of(level) for level in sorted(RELEASES)] == [1, 3, 3, 3]


# --- an upgrade that waits --------------------------------------------------------------------------


def test_it_is_noted_since_when_all_processes_support_more() -> None:
    cluster = at_level(BEFORE, brokers=(1,))
    join(cluster, 2, OLDER)
    tick(cluster, WALL_MS)
    assert pending_since_ms(cluster) is None
    upgrade(cluster, 2)
    tick(cluster, WALL_MS + 5)
    assert pending_since_ms(cluster) == WALL_MS + 5
    tick(cluster, WALL_MS + 10)
    assert not cluster.last.records


def upgrade(cluster: Cluster, broker_id: int, levels: LevelRange = SUPPORTED) -> None:
    cluster.kill(broker_id)
    cluster.levels[broker_id] = levels
    cluster.register(broker_id, f"on {levels.highest}")
    cluster.heartbeat(broker_id)


def test_a_failover_does_not_forget_it_though_nothing_was_told_yet() -> None:
    cluster = at_level(BEFORE, brokers=(1, 2))
    tick(cluster, WALL_MS)
    cluster.fail_over()
    tick(cluster, WALL_MS + 5)
    assert pending_since_ms(cluster) == WALL_MS


def test_a_process_that_goes_back_ends_it() -> None:
    cluster = at_level(BEFORE, brokers=(1, 2))
    tick(cluster, WALL_MS)
    upgrade(cluster, 2, OLDER)
    tick(cluster, WALL_MS + 5)
    assert pending_since_ms(cluster) is None


def test_after_two_weeks_it_is_an_alarm_until_it_is_finalized() -> None:
    cluster = at_level(BEFORE, brokers=(1,))
    tick(cluster, WALL_MS)
    tick(cluster, WALL_MS + PENDING_ALARM_MS - 1)
    assert PENDING not in {alarm.key for alarm in cluster.machine.alarms()}
    tick(cluster, WALL_MS + PENDING_ALARM_MS)
    (alarm,) = (effect for effect in cluster.last.effects if isinstance(effect, Alarm))
    assert alarm.key == PENDING
    assert "`springtide upgrade finalize`" in alarm.detail
    assert "14 d" in alarm.detail
    finalize(cluster)
    level, upgrade_record = cluster.last.records
    assert isinstance(level, LevelRecord)
    assert isinstance(upgrade_record, UpgradeRecord)
    tick(cluster, WALL_MS + PENDING_ALARM_MS + 1)
    assert ClearAlarm(key=PENDING) in cluster.last.effects
    assert pending_since_ms(cluster) is None


def test_nothing_is_noted_of_a_cluster_at_the_highest_level_or_without_brokers() -> None:
    for cluster in (at_level(NEWEST, brokers=(1,)), at_level(BEFORE)):
        tick(cluster, WALL_MS)
        assert not cluster.last.records
