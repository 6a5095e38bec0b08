"""Numbers that only grow, each of another kind: a type for each keeps one from being compared with another.

They are plain integers at runtime, in ZooKeeper and on the wire. -1 stands for none.
"""

from __future__ import annotations

from typing import Final, NewType

#: Unique per leadership of a partition, strictly increasing (I7, leader epochs are unique).
LeaderEpoch = NewType("LeaderEpoch", int)
#: Goes up by one with each change of a partition's state (I6, partition epochs order everything).
PartitionEpoch = NewType("PartitionEpoch", int)

#: Names one run of a member: registration mints it, greater than every one before.
BrokerEpoch = NewType("BrokerEpoch", int)
#: Unique per active controller, strictly increasing: members refuse what a deposed controller says.
ControllerEpoch = NewType("ControllerEpoch", int)

NO_LEADER_EPOCH: Final = LeaderEpoch(-1)
NO_BROKER_EPOCH: Final = BrokerEpoch(-1)
NO_CONTROLLER_EPOCH: Final = ControllerEpoch(-1)
