"""Bugs of upgrades, found where processes of two releases run in one cluster."""

from __future__ import annotations

from msgspec import structs

from controller.core.records import Cause, Change, MemberRecord, Record
from controller.shell import rows
from springtide.levels import SUPPORTED
from tests.simulation.planted.plant import Patches, plant


@plant(breaks="U2", seen="what is new in a release is written before it is finalized", family="mixed")
def a_field_before_its_level() -> Patches:
    original = rows.encode_row

    def encode_row(record: Record, version: int) -> bytes:
        if isinstance(record, MemberRecord):
            member = structs.replace(record.registration, levels=SUPPORTED)
            record = structs.replace(record, registration=member)
        return original(record, version)

    return [(rows, "encode_row", encode_row)]


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
