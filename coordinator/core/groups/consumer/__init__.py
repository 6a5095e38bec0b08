"""Groups of the `consumer` protocol (KIP-848): the coordinator assigns, and moves one member at a time.

    heartbeat   the one request of a member: the checks in their order, and what a heartbeat changes
    leaving     members that leave, and those that are given up
    targets     a new target assignment: when, by which assignor, what is written
    assigning, placing  what an assignor is asked, and how its answer comes to the members
    uniform, ranges     the assignors
    patterns    the topics that patterns stand for
    reconcile   of one member: from what it has towards its target
    groups      the groups of a shard: stored state, timers, topics
    state       a group as its records make it
    store       the records' values, latest and committed
    commits     who may commit offsets
    causes      why a group was assigned anew, and what moved

Three epochs rise: the group's, with each change of what has to be assigned; the target's, which is the
group's at the time of the last assignment; each member's, which is the target's once the member has given up
what it had to. A partition is given to a member only when no other one may still consume it (I30).

All of it is in records, unlike with the classic protocol; lost with the process are timers and causes only.
"""
