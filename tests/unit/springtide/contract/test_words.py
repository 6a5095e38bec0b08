"""Words of a later release: read from messages as UNKNOWN, and never in a row."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from enum import Enum
from types import ModuleType
from typing import Any, get_args

import msgspec
import pytest

import springtide.contract
from controller.core.records import Record
from controller.shell import rows, security_rows
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import ProblemCode
from springtide.contract.partition_state import LeaderRecovery
from springtide.contract.session import BrokerStatus, HeartbeatResponse, ShutdownKind
from springtide.contract.words import WireWord, known


def structs_of(module: ModuleType) -> Iterator[type[msgspec.Struct]]:
    for value in vars(module).values():
        if (
            isinstance(value, type)
            and issubclass(value, msgspec.Struct)
            and value.__module__ == module.__name__
        ):
            yield value


def contract_structs() -> Iterator[type[msgspec.Struct]]:
    for found in pkgutil.iter_modules(springtide.contract.__path__, "springtide.contract."):
        yield from structs_of(importlib.import_module(found.name))


def words_in(kinds: Iterable[type[msgspec.Struct]]) -> dict[type[Enum], set[tuple[str, str]]]:
    """Return the enumerations in the fields of these, and of what they are made of, with the places."""
    places: dict[type[Enum], set[tuple[str, str]]] = {}
    seen: set[type] = set()

    def look(kind: Any, place: tuple[str, str]) -> None:
        if isinstance(kind, type) and issubclass(kind, Enum):
            places.setdefault(kind, set()).add(place)
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in seen:
            seen.add(kind)
            for field in msgspec.structs.fields(kind):
                look(field.type, (kind.__name__, field.name))
        else:
            for part in get_args(kind):
                look(part, place)

    for each in kinds:
        look(each, ("", ""))
    return places


def test_each_word_of_the_wire_is_open() -> None:
    found = words_in(contract_structs())
    assert {ControllerError, BrokerStatus, ShutdownKind, ProblemCode, LeaderRecovery} <= found.keys()
    for kind in found:
        later: Any = 10_000 if issubclass(kind, int) else "of_next_year"
        assert kind(later).name in ("UNKNOWN", "OTHER")


def test_rows_have_closed_words_and_those_that_are_checked() -> None:
    kinds = (*structs_of(rows), *structs_of(security_rows), *get_args(Record))
    found = words_in(kinds)
    numbers = {kind for kind in found if issubclass(kind, int)}  # of ACLs: their rows have Kafka's words
    is_open = {kind: places for kind, places in found.items() if issubclass(kind, WireWord)}
    assert is_open == {
        ShutdownKind: {("BrokerRegistration", "last_shutdown")},
        LeaderRecovery: {("PartitionRow", "recovery"), ("PartitionState", "recovery")},
    }
    for kind in found.keys() - is_open.keys() - numbers:
        with pytest.raises(ValueError, match="of_next_year"):
            kind("of_next_year")


@pytest.mark.parametrize("kind", WireWord.__subclasses__())
def test_a_word_of_a_later_release_is_unknown(kind: type[WireWord]) -> None:
    assert msgspec.json.decode(b'"of_next_year"', type=kind).name == "UNKNOWN"
    for not_a_word in (b"7", b"null", b"[]"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(not_a_word, type=kind)
    with pytest.raises(msgspec.ValidationError, match=f"{kind.__name__} that this release does not know"):
        known(kind["UNKNOWN"])


def test_an_answer_with_new_words_is_still_an_answer() -> None:
    answer = msgspec.json.decode(
        b'{"error":"none","status":"resting","controller_epoch":4,"sequence":9}', type=HeartbeatResponse
    )
    assert (answer.error, answer.status, answer.sequence) == (ControllerError.NONE, BrokerStatus.UNKNOWN, 9)


def test_a_stop_that_is_not_known_proves_nothing() -> None:
    assert not ShutdownKind.UNKNOWN.is_intact
    assert ShutdownKind.UNKNOWN.judged is ShutdownKind.MACHINE_CRASH
    assert ShutdownKind.CLEAN.judged is ShutdownKind.CLEAN
