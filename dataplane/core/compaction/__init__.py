"""Compaction of a log to the newest record of each key, equal on all replicas.

Kafka's replicas compact alone: they differ, and a replica that missed a tombstone can bring a deleted key
back (compare redpanda 28087). Here the leader decides a *round* and writes it into the log as a control
record; each replica applies it to its own bytes once it is committed. Everything that is not in the bytes
stands in the round, so replicas that applied the same round hold the same records.

`rounds` says what a round is and when the next one is due; `deciding` is a leader's choice; `newest` finds
the newest record of each key in bounded memory; `rewriting` turns one batch into what a round leaves of it;
`known` is what a log remembers. Storage carries it out.
"""
