"""Patterns of Java as they are read here. What Java answers was asked of Java 17's `Pattern.matches`."""

from __future__ import annotations

import re

import pytest

from pipeline.errors import InvalidOption
from pipeline.source.patterns import pattern_of_java

NAMES = ("a", "b", "a.b", "axb", "aB", "ab", "aa", "aaa", "-", "_", "a-b", "]", "[", "x", "1")


def matching(pattern: str) -> list[str]:
    return [name for name in NAMES if re.fullmatch(pattern_of_java(pattern), name)]


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        (r"a.b", ["a.b", "axb", "a-b"]),
        (r"\Qa.b\E", ["a.b"]),
        (r"\Qa.b", ["a.b"]),
        (r"\Qa\E.*", ["a", "a.b", "axb", "aB", "ab", "aa", "aaa", "a-b"]),
        (r"[\Q-\E]", ["-"]),
        (r"\\Qa", []),
        (r"(?<letter>a)\k<letter>", ["aa"]),
        (r"(?<=a)b|(?<!a)x", ["x"]),
        (r"a\z", ["a"]),
        (r"a{2,}", ["aa", "aaa"]),
        (r"[]ab]", ["a", "b", "]"]),
        (r"[^]ab]", ["-", "_", "[", "x", "1"]),
        (r"[\[]", ["["]),
        (r"[a-]+", ["a", "aa", "aaa", "-"]),
        (r"(?i)AB", ["aB", "ab"]),
        (r"a&&b|x", ["x"]),
        (" a ", ["a"]),
    ],
)
def test_a_pattern_means_what_it_means_in_java(pattern: str, matches: list[str]) -> None:
    assert matching(pattern) == matches


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("[a-z[0-9]]", "a set within a set at 4: write one set"),
        ("[a-z&&[^b]]", "an intersection of sets at 4"),
        ("[&&a]", "an intersection of sets at 1"),
        ("a{,3}", "a '{' at 1 that counts nothing"),
        ("x{", "a '{' at 1 that counts nothing"),
        ("(?#x)a", "at 0 is not Java's"),
        ("(?P<n>a)", "at 0 is not Java's"),
        ("(?x) a", "at 0 is not Java's, or is read differently"),
        (r"\p{Alpha}+", r"bad escape \\p"),
        ("a(?i)B", "global flags not at the start"),
        (r"\h", r"bad escape \\h"),
        ("a(", "missing"),
        (" ", "is empty"),
    ],
)
def test_what_python_reads_differently_is_refused_in_words(pattern: str, why: str) -> None:
    with pytest.raises(InvalidOption, match=why) as raised:
        pattern_of_java(pattern)
    assert "subscribePattern" in str(raised.value)
