"""The contracts of this tree are those of the stored levels, or new and explained; and the lint has teeth."""

from __future__ import annotations

from enum import StrEnum

import msgspec
import pytest

from springtide.levels import Feature, Level
from tests.upgrade.contract_lint import broken, complaints, new, stale, stored_schemas, unexplained
from tests.upgrade.contract_schema import schema, structs
from tests.upgrade.last_release import NAMED, named


class Word(StrEnum):
    ONE = "one"


class Left(msgspec.Struct, tag="left"):
    at: int


class Right(msgspec.Struct, tag="right"):
    at: int


class Row(msgspec.Struct):
    """As an older release has it."""

    number: int
    word: Word = Word.ONE
    call: Left | None = None
    title: str = ""


STORED = schema([Row])


def now_with(**fields: object) -> dict[str, object]:
    """Return the schema in which Row has these annotations instead, or besides; None: it lacks the field."""
    present = {
        "number": int,
        "word": (Word, Word.ONE),
        "call": (Left | None, None),
        "title": (str, ""),
    } | fields
    given = [
        (name, *(kind if isinstance(kind, tuple) else (kind,))) for name, kind in present.items() if kind
    ]
    return schema([msgspec.defstruct("Row", given, kw_only=True)])


def test_the_contracts_of_this_tree_are_those_of_the_stored_levels_or_new_and_explained() -> None:
    assert complaints() == []


def test_the_last_releases_level_is_stored_and_has_the_contracts() -> None:
    stored = stored_schemas()[Level(named(NAMED.read_text(encoding="utf-8")).level)]
    assert {
        "RegisterRequest",
        "UpdateBatch",
        "ChunkRow",
        "Work",
        "Seal",
        "LandPlan",
        "Cause",
    } <= stored.keys()
    assert len(list(structs())) > 100


def test_what_is_the_same_is_not_red() -> None:
    assert broken(STORED, now_with()) == []
    assert list(new(STORED, now_with())) == []


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (now_with(title=None), ["Row.title is gone"]),
        (now_with(number=str), ['Row.number was {"type": "integer"}, is {"type": "string"}']),
        (now_with(title=str), ["Row.title is required, and was not"]),
        (now_with(more=int), ["Row.more is required, and was not"]),
        ({name: kind for name, kind in STORED.items() if name != "Word"}, ["Word is gone"]),
        ({**STORED, "Word": {"enum": ["two"]}}, ["Word has no word 'one' any more"]),
    ],
)
def test_what_breaks_the_older_release_is_red(now: dict[str, object], said: list[str]) -> None:
    assert broken(STORED, now) == said


def test_a_struct_that_becomes_an_array_is_red() -> None:
    array = msgspec.defstruct("Row", [("number", int)], array_like=True)
    assert any(line.startswith("Row was ") for line in broken(STORED, schema([array])))


def test_new_fields_words_and_kinds_need_a_feature_of_a_later_level_or_a_reason() -> None:
    class Words(StrEnum):
        ONE = "one"
        TWO = "two"

    Words.__name__ = "Word"
    now = now_with(more=(int, 0), word=(Words, Words.ONE))
    assert set(new(STORED, now)) == {"Row.more", "Word:two"}
    later, earlier = Feature("later", Level(1)), Feature("earlier", Level(0))
    assert unexplained(STORED, now, Level(0), {"Row.more": later, "Word:two": "never sent"}) == []
    (missing,) = unexplained(STORED, now, Level(0), {"Word:two": later})
    assert missing.startswith("Row.more is new")
    (early,) = unexplained(STORED, now, Level(0), {"Row.more": earlier, "Word:two": later})
    assert "already writes" in early


def test_one_more_kind_in_a_union_is_new_and_one_less_is_red() -> None:
    two = schema([msgspec.defstruct("Row", [("call", Left | Right)])])
    three = schema(
        [msgspec.defstruct("Row", [("call", Left | Right | msgspec.defstruct("Up", [], tag="up"))])]
    )
    assert broken(two, three) == []
    assert list(new(two, three)) == ["Row.call:up"]
    assert broken(three, two) != []


def test_an_explanation_of_what_is_not_new_is_stale() -> None:
    now = now_with(more=(int, 0))
    assert stale({Level(0): STORED}, now, {"Row.more": "why", "Row.less": "why"}) == [
        "Row.less is explained in tolerances.py and not new"
    ]
