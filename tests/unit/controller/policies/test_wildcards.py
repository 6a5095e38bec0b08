"""LIKE and GLOB find what SQLite's own find, and do it in time."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.policies.wildcards import BadPattern, glob_pattern, like_pattern

TEXTS = st.text("aAbé*?[%_]^!-\n", max_size=7)


def sqlites(comparison: str, *values: str) -> bool:
    with closing(sqlite3.connect(":memory:")) as connection:
        return bool(connection.execute(f"select {comparison}", values).fetchone()[0])


@given(TEXTS, st.text("aAbÉ%_%!*?[", max_size=7))
def test_like_is_sqlites(text: str, pattern: str) -> None:
    assert bool(like_pattern(pattern).match(text)) is sqlites("? like ?", text, pattern)
    escaped = bool(like_pattern(pattern, "!").match(text))
    assert escaped is sqlites("? like ? escape '!'", text, pattern)


@given(TEXTS, st.text("aAbé*?*[]^!-", max_size=8))
def test_glob_is_sqlites(text: str, pattern: str) -> None:
    assert bool(glob_pattern(pattern).match(text)) is sqlites("? glob ?", text, pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("[]-Aé]", "A", True),
        ("[^]]", "]", False),
        ("[a-]", "-", True),
        ("[z-a]", "z", True),
        ("[", "[", False),
        ("a**", "a", True),
        ("\\*", "\\x", True),
    ],
)
def test_the_odd_cases_of_glob_are_sqlites(pattern: str, text: str, found: bool) -> None:
    assert sqlites("? glob ?", text, pattern) is found
    assert bool(glob_pattern(pattern).match(text)) is found


def test_many_wildcards_over_a_long_text_take_no_time() -> None:
    """SQLite's own would go back and forth for years."""
    assert not like_pattern("%b" * 100 + "c").match("ab" * 50_000)
    assert not glob_pattern("*b" * 100 + "c").match("ab" * 50_000)


def test_long_patterns_and_escapes_are_refused() -> None:
    with pytest.raises(BadPattern):
        like_pattern("%x" * 126)
    with pytest.raises(BadPattern):
        glob_pattern("*x" * 126)
    with pytest.raises(BadPattern):
        like_pattern("a", "!!")
