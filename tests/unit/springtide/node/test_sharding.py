"""The shard of a group, against hashes that Java's String.hashCode and Kafka's Utils.abs gave."""

from __future__ import annotations

import pytest

from springtide.node.sharding import java_hash, shard_of


@pytest.mark.parametrize(
    ("name", "hashed", "shard"),
    [
        ("", 0, 0),
        ("g", 103, 3),
        ("orders-é", 1234322433, 33),
        ("console-consumer-12345", 158455506, 6),
        ("Hello World", -862545276, 26),
        ("😀-group", -1198440043, 43),
        ("polygenelubricants", -2147483648, 0),
    ],
)
def test_the_shard_of_a_group_is_the_one_that_java_computes(name: str, hashed: int, shard: int) -> None:
    assert java_hash(name) == hashed
    assert shard_of(name, 50) == shard


def test_the_hash_without_an_absolute_value_is_shard_0_of_any_number() -> None:
    assert {shard_of("polygenelubricants", shards) for shards in range(1, 60)} == {0}
