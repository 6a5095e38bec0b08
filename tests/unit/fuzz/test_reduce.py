"""Which inputs of a search are kept."""

from __future__ import annotations

from springtide.security.principal_rules import parse_principal_rules
from tests.fuzz.reduce import few


def run(data: bytes) -> bool:
    try:
        return bool(parse_principal_rules(data.decode()))
    except ValueError:
        return False


def test_the_shortest_input_is_kept_of_those_that_take_the_same_steps() -> None:
    inputs = [
        b"RULE:long/rule/,DEFAULT",
        b"RULE:a/b/,DEFAULT",
        b"DEFAULT",
        b" DEFAULT",
        b"x",
        b"xx",
        b"RULE:(/b/",
    ]
    assert few(run, inputs) == [b"x", b"DEFAULT", b"RULE:(/b/", b"RULE:a/b/,DEFAULT"]
    assert few(run, inputs, beyond=[b"xxxx", b"RULE:(/b/"]) == [b"DEFAULT", b"RULE:a/b/,DEFAULT"]
