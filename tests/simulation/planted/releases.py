"""Bugs of upgrades, found where processes of two releases run in one cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from controller.core import upgrade
from controller.core.events import Process
from controller.core.records import Cause, Change, PartitionRecord
from controller.shell import rows
from dataplane.core.compaction import known, rounds
from dataplane.shell import data_directory
from springtide.levels import NEWEST, UNTOLD, Level, LevelRange
from springtide.node.controller_client import Seen
from tests.simulation import shards
from tests.simulation.planted.plant import Patches, plant
from tests.simulation.releases.mixed import LAST_LEVEL
from tests.simulation.releases.source import last


@plant(
    breaks="U2",
    seen="a word of a later release in a row: the controller before it takes the row for damage and serves "
    "the cluster no more",
    family="mixed",
)
def a_word_before_its_level() -> Patches:
    original = rows.shorten

    def shorten(change: Change) -> Change:
        if change.cause is Cause.BROKER_DIED:
            change = structs.replace(change, cause=Cause.UPGRADE_POSSIBLE)
        return original(change)

    return [(rows, "shorten", shorten)]


@plant(breaks="U1", seen="a row is written without a field that the release before wrote", family="mixed")
def a_field_is_dropped() -> Patches:
    original = rows.encode_chunk

    def encode_chunk(topic: str, topic_id: str, records: Iterable[PartitionRecord]) -> bytes:
        states = [(record, structs.replace(record.state, elr=())) for record in records]
        return original(topic, topic_id, [structs.replace(record, state=state) for record, state in states])

    return [(rows, "encode_chunk", encode_chunk)]


@plant(
    breaks="I35",
    seen="what stands in the log has another version, and the release before takes it for rot",
    family="mixed",
    compacted=True,
)
def a_round_of_a_later_version() -> Patches:
    original, version = rounds.decode_round, rounds._VALUE_VERSION
    before, after = (rounds._VERSION.pack(number) for number in (version, version + 1))

    def decode_round(value: bytes | None) -> rounds.Round:
        """This release reads both."""
        is_earlier = value is not None and bytes(value[: len(before)]) == before
        return original(after + value[len(before) :] if is_earlier and value is not None else value)

    found: Patches = [(rounds, "_VALUE_VERSION", version + 1)]
    return found + [(owner, "decode_round", decode_round) for owner in (rounds, known, shards)]


@plant(
    breaks="U4",
    seen="a process that does not run when the level is raised is forgotten: it comes back and can't go on",
    family="mixed",
    seeds_max=120,
)
def finalized_despite_a_fenced_broker() -> Patches:
    original = upgrade._reason

    def reason(process: Process, target: Level) -> str | None:
        return original(process, target) if process.is_running else None

    return [(upgrade, "_reason", reason)]


@plant(
    breaks="I5",
    seen="the release before takes what is new in a small file for a part of what it knows: it witnesses a "
    "lineage that never was, and the controllers halt the cluster",
    family="mixed",
)
def level_behind_the_lineage() -> Patches:
    def encode_seen(seen: Seen) -> bytes:
        level = f" {seen.level}" if seen.level else ""
        return f"{seen.controller_epoch} {seen.records} {seen.lineage}{level}".encode()

    return [(data_directory, "encode_seen", encode_seen)]


@plant(breaks="L1", seen="the two ends of a range are taken for each other", family="mixed")
def ends_of_a_range_swapped() -> Patches:
    def has(levels: LevelRange, level: Level) -> bool:
        return levels.highest <= level <= levels.lowest

    return [(LevelRange, "has", has)]


@plant(breaks="U3", seen="asked once more, the operator gets the other one of two levels", family="mixed")
def level_falls() -> Patches:
    def target_of(level: Level) -> Level:
        return Level(level + 1) if level < NEWEST else Level(level - 1)

    return [(upgrade, "target_of", target_of)]


# Release 0.1 knows no levels.
if LAST_LEVEL > UNTOLD:

    @plant(
        breaks="U4",
        seen="a controller that can't run at the cluster's level stands, and serves what it half understands",
        family="mixed",
    )
    def old_controller_stands() -> Patches:
        def check_level(cluster: str, data: bytes) -> None:
            """It is let stand."""

        return [(last("tests.simulation.controller_node"), "check_level", check_level)]

    @plant(
        breaks="U4",
        seen="rows are read before the level that says whether they can be",
        family="mixed",
    )
    def level_read_after_rows() -> Patches:
        node = last("tests.simulation.controller_node").ControllerNode
        original = node._may_stand

        def may_stand(controller: Any) -> bool:
            controller.zookeeper.read_all()
            may: bool = original(controller)
            return may

        return [(node, "_may_stand", may_stand)]
