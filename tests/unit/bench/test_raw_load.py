"""What the connections of the raw load write to."""

from __future__ import annotations

from bench.protocol import Leader
from bench.raw_load import shares_of


def test_many_partitions_are_written_evenly_by_each_connection_to_their_broker() -> None:
    leaders = [Leader(partition, "h", partition % 3) for partition in range(2000)]
    shares = shares_of(leaders, 50)
    for share in shares:
        assert len({leader.port for leader in share}) == 1
        assert sorted(share) == [leader for leader in leaders if leader.port == share[0].port]
    assert {leader for share in shares for leader in share} == set(leaders)
    assert len({share[0] for share in shares}) == 50, "they don't begin with the same partition"
