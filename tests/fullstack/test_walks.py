"""Each walk of `make house` goes from a request to its answer in a cluster in virtual time."""

from __future__ import annotations

from tests.house.walks import take_walks


def test_a_walk_enters_the_product_and_is_the_same_in_every_run() -> None:
    walks = take_walks(seeds=(2,))
    assert list(walks) == [
        "Produce, one replica",
        "Produce, acks=all, three brokers",
        "OffsetCommit",
        "ISR shrink",
        "POST of brokers",
    ]
    assert walks["Produce, one replica"]["calls"] < walks["Produce, acks=all, three brokers"]["calls"]
    assert all(found["files"] > 10 for found in walks.values())
    assert take_walks(seeds=(2,)) == walks
