"""Each record lands once: killed at every step of driver and tasks, alone and with another driver."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from pipeline.client.values import TopicPartition
from pipeline.errors import LandError
from pipeline.land.reading import landed
from springtide.wire.compression import Compression
from tests.kit.pipeline.brokers import ScriptedBroker
from tests.kit.pipeline.land_world import (
    HOUR_MS,
    NOON_MS,
    Killed,
    Landing,
    Logs,
    MortalDisk,
    check_exactly_once,
    data_files,
    offsets_in,
    rows_by_manifest,
)


@pytest.fixture
def logs() -> Iterator[Logs]:
    with ExitStack() as stack:
        yield Logs(stack.enter_context(ScriptedBroker({})))


@pytest.fixture
def orders(logs: Logs) -> Logs:
    """Two partitions over a few hours and no hour, one of them compacted, and an empty one."""
    logs.make("orders", 3)
    logs.write("orders", 0, [NOON_MS + n * HOUR_MS // 20 for n in range(25)], compression=Compression.ZSTD)
    logs.write("orders", 0, [NOON_MS + n for n in range(25)])
    logs.write("orders", 1, [-1, NOON_MS, NOON_MS - 1, -1], gap=7)
    return logs


def test_what_is_there_lands_once_and_what_comes_later_lands_next(orders: Logs, tmp_path: Path) -> None:
    assert Landing(orders, tmp_path).run() == 1
    check_exactly_once(tmp_path, orders)
    assert data_files(tmp_path)[0] == (
        "topic=orders/date=2023-11-15/hour=11/orders-1-00000000000000000000-00000000000000000010.parquet"
    )
    assert Landing(orders, tmp_path).run() == 0, "nothing is new"
    orders.write("orders", 2, [NOON_MS])
    assert Landing(orders, tmp_path).run() == 1
    check_exactly_once(tmp_path, orders)
    assert landed(tmp_path).batches == 2


def test_small_batches_add_up(orders: Logs, tmp_path: Path) -> None:
    assert Landing(orders, tmp_path, records_per_batch=15, records_per_task=4).run() == 5
    check_exactly_once(tmp_path, orders)


def test_killed_at_every_step_it_goes_on_where_it_was(orders: Logs, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"partition_by": ("topic", "date"), "records_per_batch": 45}
    whole = MortalDisk()
    (tmp_path / "whole").mkdir()
    Landing(orders, tmp_path / "whole", disk=whole, **settings).run()
    assert whole.done > 50
    for operations in range(whole.done):
        root = tmp_path / str(operations)
        root.mkdir()
        with pytest.raises(Killed):
            Landing(orders, root, disk=MortalDisk(operations), **settings).run()
        Landing(orders, root, **settings).run()
        check_exactly_once(root, orders)


@pytest.mark.parametrize("seed", range(12))
def test_killed_again_and_again_while_more_comes(orders: Logs, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(30):
        if dice.random() < 0.3:
            count = dice.randrange(1, 20)
            orders.write("orders", dice.randrange(3), [NOON_MS + dice.randrange(-2, 3) * HOUR_MS] * count)
        with suppress(Killed):
            Landing(
                orders,
                tmp_path,
                disk=MortalDisk(dice.randrange(90)),
                records_per_batch=dice.choice([None, 10, 40]),
                records_per_task=dice.choice([5, 20, 1000]),
                compression=dice.choice(["zstd", "snappy", "none"]),
            ).run()
    Landing(orders, tmp_path).run()
    check_exactly_once(tmp_path, orders)


def test_two_drivers_at_one_table_do_the_same_work(orders: Logs, tmp_path: Path) -> None:
    first, second = Landing(orders, tmp_path, records_per_batch=30), Landing(orders, tmp_path)
    ran: list[int] = []

    def overtake() -> None:
        first.before_tasks = lambda: None
        ran.append(second.run())
        orders.write("orders", 1, [NOON_MS])

    first.before_tasks = overtake
    assert first.run() == 1, "its goal was fixed when it began, and the other has reached it"
    assert ran == [2], "it finished the first one's batch, then did its own"
    Landing(orders, tmp_path).run()
    check_exactly_once(tmp_path, orders)


def test_compaction_between_two_attempts_lands_nothing_twice(orders: Logs, tmp_path: Path) -> None:
    """The first attempt's files stand; those it had not named have what the log holds later."""
    whole = MortalDisk()
    (tmp_path / "whole").mkdir()
    Landing(orders, tmp_path / "whole", disk=whole).run()
    where = TopicPartition("orders", 0)
    before = list(orders.rows[where])
    root = tmp_path / "table"
    root.mkdir()
    with pytest.raises(Killed):
        Landing(orders, root, disk=MortalDisk(whole.done - 8)).run()
    named = data_files(root)
    assert named
    orders.batches[where], orders.rows[where] = [], []
    orders.write("orders", 0, [row[5] for row in before[40:]], gap=40)
    orders.rows[where] = before[40:]
    Landing(orders, root).run()
    assert set(named) <= set(data_files(root))
    assert {file.path for file in landed(root).files} <= set(data_files(root))
    offsets = [row[2] for row in rows_by_manifest(root) if row[1] == 0]
    assert set(range(40, 50)) <= set(offsets)
    # What the first attempt named and the second found nothing for is in no manifest, and nothing is double.
    plain = [offset for path in data_files(root) if "orders-0-" in path for offset in offsets_in(root / path)]
    assert len(set(plain)) == len(plain) and set(offsets) <= set(plain)


# --- losses
# ---------------------------------------------------------------------------------------------------------


def test_retention_that_was_faster_is_refused_unless_it_is_allowed(orders: Logs, tmp_path: Path) -> None:
    Landing(orders, tmp_path).run()
    where = TopicPartition("orders", 0)
    orders.write("orders", 0, [NOON_MS] * 10)
    orders.write("orders", 0, [NOON_MS] * 10)
    orders.begins[where] = 60
    with pytest.raises(LandError, match=r"orders-0: offsets 50 to 59 were removed before they were landed"):
        Landing(orders, tmp_path).run()
    Landing(orders, tmp_path, allow_loss=True).run()
    state = landed(tmp_path).partitions[where]
    assert (state.next_offset, state.records, state.skipped) == (70, 60, 10)
    (manifest,) = Landing(orders, tmp_path).table.manifests(1)
    assert "offsets 50 to 59" in manifest.losses[0]


def test_retention_in_the_middle_of_a_batch_is_a_loss_too(orders: Logs, tmp_path: Path) -> None:
    where = TopicPartition("orders", 0)
    landing = Landing(orders, tmp_path)
    landing.before_tasks = lambda: orders.begins.update({where: 25})
    with pytest.raises(LandError, match=r"records are lost: orders-0: offset 0 is out of range"):
        landing.run()
    Landing(orders, tmp_path, allow_loss=True).run()
    state = landed(tmp_path).partitions[where]
    assert (state.next_offset, state.records, state.skipped) == (50, 25, 25)


def test_what_an_unclean_election_cut_off_after_it_was_landed_is_told(orders: Logs, tmp_path: Path) -> None:
    Landing(orders, tmp_path).run()
    where = TopicPartition("orders", 0)
    orders.leader_epoch, orders.epoch_ends[where] = 4, 45
    orders.write("orders", 0, [NOON_MS])
    with pytest.raises(LandError, match=r"landed up to offset 49, but leader epoch 3 ended before offset 45"):
        Landing(orders, tmp_path).run()
    Landing(orders, tmp_path, allow_loss=True).run()
    del orders.epoch_ends[where]
    assert Landing(orders, tmp_path).run() == 0, "told once, and the new epoch is remembered"


def test_a_topic_created_anew_is_not_taken_for_the_old_one(orders: Logs, tmp_path: Path) -> None:
    Landing(orders, tmp_path).run()
    orders.make("orders", 3, topic_id=2)
    orders.write("orders", 0, [NOON_MS])
    with pytest.raises(LandError, match="was deleted and created again"):
        Landing(orders, tmp_path).run()


@pytest.mark.parametrize("allow_loss", [False, True])
def test_a_topic_created_anew_under_a_plan_lands_nothing_of_the_new_one(
    orders: Logs, tmp_path: Path, allow_loss: bool
) -> None:
    """The driver has asked which topic it is, and its tasks ask for records a moment later."""
    landing = Landing(orders, tmp_path, allow_loss=allow_loss)
    landing.before_tasks = lambda: orders.make("orders", 3, topic_id=2)
    if not allow_loss:
        with pytest.raises(LandError, match=r"records are lost: .*the topic was deleted and created again"):
            landing.run()
    else:
        landing.run()
        assert sum(one.skipped for one in landed(tmp_path).partitions.values()) == 61
    assert data_files(tmp_path) == []
    with pytest.raises(LandError, match="was deleted and created again"):
        Landing(orders, tmp_path, allow_loss=allow_loss).run()


# --- where landing begins and ends
# ----------------------------------------------------------------------------------


def test_latest_is_pinned_though_nothing_is_there_to_land(orders: Logs, tmp_path: Path) -> None:
    def landing() -> Landing:
        return Landing(orders, tmp_path, options={"startingTimestamp": str(NOON_MS * 2)}, is_endless=True)

    with pytest.raises(Exception, match="no record at or after"):
        landing().run()
    options = {"startingTimestamp": str(NOON_MS * 2), "startingOffsetsByTimestampStrategy": "latest"}
    assert Landing(orders, tmp_path, options=options).run() == 1
    assert landed(tmp_path).records == 0
    orders.write("orders", 0, [NOON_MS])
    Landing(orders, tmp_path, options=options).run()
    assert [row[:3] for row in rows_by_manifest(tmp_path)] == [("orders", 0, 50)]


def test_a_range_ends_where_it_was_told_and_the_next_one_goes_on(orders: Logs, tmp_path: Path) -> None:
    Landing(orders, tmp_path, options={"endingOffsets": '{"orders":{"0":13,"1":8,"2":-1}}'}).run()
    assert [row[1:3] for row in rows_by_manifest(tmp_path)] == [*((0, n) for n in range(13)), (1, 7)]
    Landing(orders, tmp_path).run()
    check_exactly_once(tmp_path, orders)


def test_a_partition_that_a_topic_gets_later_is_landed_from_its_first_record(
    orders: Logs, tmp_path: Path
) -> None:
    options = {"startingOffsets": '{"orders":{"0":49,"1":-2,"2":-1}}', "endingOffsets": "latest"}
    with pytest.raises(Exception, match="can't be latest"):
        Landing(orders, tmp_path, options={**options, "startingOffsets": "latest"}).run()
    options["startingOffsets"] = '{"orders":{"0":49,"1":-2,"2":0}}'
    Landing(orders, tmp_path, options=options).run()
    assert len(rows_by_manifest(tmp_path)) == 5
    orders.make("orders", 4)
    orders.write("orders", 3, [NOON_MS] * 3)
    Landing(orders, tmp_path, options=options).run()
    assert len(rows_by_manifest(tmp_path)) == 8


def test_a_second_topic_lands_beside_the_first(orders: Logs, tmp_path: Path) -> None:
    Landing(orders, tmp_path).run()
    orders.make("__payments", 1, topic_id=9)
    orders.write("__payments", 0, [NOON_MS])
    Landing(orders, tmp_path, topics="orders,__payments").run()
    check_exactly_once(tmp_path, orders)
    assert landed(tmp_path).topics == ["__payments", "orders"]


# --- what is refused
# ------------------------------------------------------------------------------------------------


def test_a_table_is_of_one_cluster_and_one_layout(orders: Logs, tmp_path: Path) -> None:
    Landing(orders, tmp_path).run()
    with pytest.raises(LandError, match="is partitioned by topic,date,hour, not by topic"):
        Landing(orders, tmp_path, partition_by=("topic",)).run()


def test_a_file_of_somebody_elses_is_neither_taken_nor_overwritten(orders: Logs, tmp_path: Path) -> None:
    Landing(orders, tmp_path / "whole").run()
    path = data_files(tmp_path / "whole")[0]
    theirs = tmp_path / "table" / path
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"theirs")
    with pytest.raises(LandError, match="is no Parquet file"):
        Landing(orders, tmp_path / "table").run()
    assert theirs.read_bytes() == b"theirs"
    orders.make("orders", 3, topic_id=5)
    theirs.write_bytes((tmp_path / "whole" / path).read_bytes())
    (tmp_path / "table" / "_springtide/batches" / f"{0:020d}.plan.json").unlink()
    with pytest.raises(LandError, match="is there already, and not of batch 0"):
        Landing(orders, tmp_path / "table").run()


def test_damage_in_a_log_lands_nothing_of_its_batch(orders: Logs, tmp_path: Path) -> None:
    where = TopicPartition("orders", 1)
    first, end, data = orders.batches[where][0]
    orders.batches[where][0] = (first, end, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(LandError, match="CRC does not match") as raised:
        Landing(orders, tmp_path).run()
    assert "verify" in raised.value.advice
    assert landed(tmp_path).batches == 0
    orders.batches[where][0] = (first, end, data)
    Landing(orders, tmp_path).run()
    check_exactly_once(tmp_path, orders)
