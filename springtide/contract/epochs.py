"""Numbers that only grow, each of another kind: a type for each keeps one from being compared with another.

They are plain integers at runtime, in ZooKeeper and on the wire. -1 stands for none.
"""

from __future__ import annotations

from typing import Final, NewType

#: Unique per leadership of a partition, strictly increasing (I7, leader epochs are unique).
LeaderEpoch = NewType("LeaderEpoch", int)
#: Goes up by one with each change of a partition's state (I6, partition epochs order everything).
PartitionEpoch = NewType("PartitionEpoch", int)

NO_LEADER_EPOCH: Final = LeaderEpoch(-1)
