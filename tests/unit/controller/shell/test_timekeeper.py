"""The controller's clock beside ZooKeeper's: what is stamped, what may expire, and who is told."""

from __future__ import annotations

import anyio
import pytest

from controller.core.effects import AlarmCode
from controller.shell.engine import Engine
from controller.shell.timekeeper import READ_EVERY_MS
from springtide.contract.agreed_time import LEAP_MS_MIN, READING_MS_MAX
from tests.kit.clocks import VirtualClock
from tests.kit.controller.shell import form_cluster, make_engine, running
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

DAY_MS = 24 * 60 * 60 * 1000


def leaps(engine: Engine) -> list[str]:
    return [a.detail for a in engine.cluster("prod").alarms() if a.key.code is AlarmCode.CLOCK_LEAP]


async def pass_ms(ms: int) -> None:
    await anyio.sleep(ms / 1000)


@pytest.mark.parametrize("leap_ms", [8 * DAY_MS, -8 * DAY_MS])
async def test_while_the_controllers_clock_has_leapt_nothing_expires_and_an_operator_is_told(
    zookeeper: MemoryZooKeeper, leap_ms: int
) -> None:
    clock = VirtualClock()
    engine = make_engine(zookeeper.connect(), clock)
    async with running(engine):
        await form_cluster(engine)
        await pass_ms(READ_EVERY_MS)
        expiry_ms = engine.clock.expiry_ms()
        assert expiry_ms is not None
        assert abs(expiry_ms - clock.now_wall_ms()) < 1_000
        clock.wall_ahead_ms = leap_ms
        assert engine.clock.expiry_ms() is None
        assert abs(engine.clock.now_wall_ms() - (clock.now_wall_ms() - leap_ms)) < 1_000, "stamps go on"
        assert engine.clock.own_wall_ms() == clock.now_wall_ms(), "brokers compare it as it is"
        await pass_ms(READ_EVERY_MS)
        (detail,) = leaps(engine)
        word = "ahead of" if leap_ms > 0 else "behind"
        assert f"the controller's wall clock is 8 d 0 h 0 min {word} ZooKeeper's" in detail
        clock.wall_ahead_ms = 0
        await pass_ms(READ_EVERY_MS)
        assert leaps(engine) == []
        assert engine.clock.expiry_ms() is not None


async def test_a_controller_that_starts_with_a_wrong_clock_removes_nothing(
    zookeeper: MemoryZooKeeper,
) -> None:
    clock = VirtualClock()
    clock.wall_ahead_ms = 2 * LEAP_MS_MIN
    engine = make_engine(zookeeper.connect(), clock)
    async with running(engine):
        await form_cluster(engine)
        await pass_ms(3 * READ_EVERY_MS)
        assert engine.clock.expiry_ms() is None
        assert len(leaps(engine)) == 1


async def test_without_zookeeper_nothing_expires(zookeeper: MemoryZooKeeper) -> None:
    meta = zookeeper.connect()
    engine = make_engine(meta, VirtualClock())
    async with running(engine):
        await pass_ms(READ_EVERY_MS)
        assert engine.clock.expiry_ms() is not None
        meta.disconnect()
        await pass_ms(READING_MS_MAX + READ_EVERY_MS)
        assert engine.clock.expiry_ms() is None
        meta.reconnect()
        await pass_ms(READ_EVERY_MS)
        assert engine.clock.expiry_ms() is not None
