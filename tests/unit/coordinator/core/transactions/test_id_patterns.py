"""Patterns of transactional ids, against Python's own where that is safe."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.core.transactions.id_patterns import PATTERN_CHARS_MAX, UnknownPattern, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "of", "not_of"),
    [
        ("payments", ["payments"], ["payment", "payments2", "my-payments", ""]),
        ("pay.*", ["pay", "payments", "pay é"], ["pa", "my-payments", "pay\nments"]),
        (".*pay.*", ["pay", "my-payments"], ["pa", "p-a-y"]),
        (".*-1", ["a-1", "-1", "-1-1"], ["a-2", "-1 "]),
        ("a.c", ["abc", "a.c", "aéc"], ["ac", "abbc", "a\nc"]),
        (r"a\.c", ["a.c"], ["abc"]),
        (r"\[\*\\\-", [r"[*\-"], ["x"]),
        ("", [""], ["a"]),
        (".*", ["", "a"], ["a\n"]),
        ("a.*.*b.*c", ["abc", "a1b2c"], ["acb"]),
    ],
)
def test_a_pattern_is_of_the_whole_id(pattern: str, of: list[str], not_of: list[str]) -> None:
    matches = compile_pattern(pattern)
    assert [text for text in of if not matches(text)] == []
    assert [text for text in not_of if matches(text)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "a+",
        "a*",
        "*",
        "a?",
        "[ab]",
        "(a)",
        "a|b",
        "^a",
        "a$",
        "a{2}",
        ".*?",
        ".**",
        ".+",
        r"\d",
        r"\w",
        r"\é",
        "\\§",
        "\\\x80",
        "\\",
    ],
)
def test_what_is_more_than_literals_and_dots_is_refused(pattern: str) -> None:
    with pytest.raises(UnknownPattern):
        compile_pattern(pattern)


def test_the_last_ascii_character_may_be_escaped() -> None:
    assert compile_pattern("\\\x7f")("\x7f")


def test_a_pattern_has_a_bound() -> None:
    compile_pattern("x" * PATTERN_CHARS_MAX)
    with pytest.raises(UnknownPattern):
        compile_pattern("x" * (PATTERN_CHARS_MAX + 1))


@given(
    st.lists(st.sampled_from(["a", "b", ".", ".*", r"\.", r"\*", "\n"]), max_size=8).map("".join),
    st.text("ab.*\n", max_size=10),
)
@example("a.*a.*b", "aab")
def test_it_is_what_a_known_engine_says(pattern: str, text: str) -> None:
    assert compile_pattern(pattern)(text) == (re.fullmatch(pattern, text) is not None)


def test_a_pattern_that_has_other_engines_try_for_ever_is_matched_in_linear_time() -> None:
    began = time.perf_counter()
    assert not compile_pattern("a.*" * 300 + "b.a")("ab" + "a" * 32_000)
    assert time.perf_counter() - began < 5
