"""Bugs planted on purpose, each a way in which a replicated log has lost records: the harness must find them.

A plant replaces methods or functions of the product for the length of a `with` block; the product itself has
no switch. Each says what it breaks, where it was seen in the field, and how soon it must be found.
"""

from __future__ import annotations

from tests.simulation.planted import (
    clocks,
    compaction,
    consumer_groups,
    consumers,
    controllers,
    coordinators,
    creations,
    disks,
    followers,
    groups,
    hosts,
    kept,
    leaders,
    reassignments,
    releases,
    rot,
    topics,
    transaction_ends,
    transactions,
    workers,
)
from tests.simulation.planted.plant import PLANTS, Plant, planted

__all__ = [
    "PLANTS",
    "Plant",
    "clocks",
    "compaction",
    "consumer_groups",
    "consumers",
    "controllers",
    "coordinators",
    "creations",
    "disks",
    "followers",
    "groups",
    "hosts",
    "kept",
    "leaders",
    "planted",
    "reassignments",
    "releases",
    "rot",
    "topics",
    "transaction_ends",
    "transactions",
    "workers",
]
