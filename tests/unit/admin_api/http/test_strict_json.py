from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admin_api.http.bodies import INTEGER_CHARS_MAX, Unreadable, parse_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda children: (
        st.lists(children) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), children)
    ),
    max_leaves=20,
)


@given(values)
def test_whatever_json_can_say_is_read_as_it_was_meant(value: Any) -> None:
    assert parse_json(json.dumps(value).encode(), depth_max=64) == value


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    try:
        parse_json(data, depth_max=8)
    except Unreadable as error:
        assert str(error)


@given(st.text(alphabet='[]{}",:\\ax0', max_size=60))
def test_the_depth_check_never_lets_a_deeper_document_pass(text: str) -> None:
    def depth(value: Any) -> int:
        if isinstance(value, dict):
            return 1 + max((depth(item) for item in value.values()), default=0)
        if isinstance(value, list):
            return 1 + max((depth(item) for item in value), default=0)
        return 0

    try:
        value = parse_json(text.encode(), depth_max=2)
    except Unreadable:
        return
    assert depth(value) <= 2


def test_brackets_in_strings_do_not_count() -> None:
    assert parse_json(b'{"a": "[[[[\\"[[["}', depth_max=1) == {"a": '[[[["[[['}


def test_a_number_of_a_million_digits_costs_nothing_and_is_out_of_every_range() -> None:
    huge = parse_json(b"-" + b"9" * 1_000_000, depth_max=1)
    assert huge == -(10**INTEGER_CHARS_MAX)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b'{"a":1,"a":2}', "more than once"),
        (b"[NaN]", "NaN"),
        (b"\xff", "UTF-8"),
        (b'"\\udead"', "surrogate"),
        (b'{"\\udead": 1}', "surrogate"),
        (b"[[[]]]", "nested"),
        (b"[1 2]", "line 1, column 4"),
    ],
)
def test_a_refusal_says_what_is_wrong(data: bytes, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        parse_json(data, depth_max=2)
