"""Faults as values: a schedule of strikes that can be printed, stored, cut down and played again.

A strike says when, what, and everything that was chosen by chance: whom it hits by name, how long it lasts,
what a power cut leaves of a disk. Applying it draws nothing. So a run is its seed (options, pace, delays)
plus its strikes, and one strike can be taken out without moving any other.

The kinds, with their arguments, are in the modules kinds_*.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

Arguments = dict[str, Any]


class Strike(msgspec.Struct, frozen=True):
    """One fault. at_ms: virtual time at which it strikes. args: JSON values, all choices made."""

    at_ms: int
    kind: str
    args: Arguments = {}

    def __str__(self) -> str:
        arguments = " ".join(f"{name}={value}" for name, value in self.args.items())
        return f"{self.at_ms:>8} {self.kind} {arguments}"


class Kind(msgspec.Struct, frozen=True):
    """A kind of fault. draw: choose the arguments in the cluster's present state; None when there is nothing
    to strike. apply: do it; False when it makes no sense in this state, and then nothing has happened.
    weight: how often it is drawn; 0: in a sweep of its family only. needs: the option of a cluster without
    which this kind is never drawn ("plans", "coordinators"), so that what all other seeds draw stays as it
    is; "": none. family: the name of the family of faults that this kind belongs to (`FAMILIES`), or "". A
    sweep of one family draws half of its strikes from that family."""

    name: str
    draw: Callable[[Cluster, Random], Arguments | None]
    apply: Callable[..., bool]
    weight: int = 1
    needs: str = ""
    family: str = ""


#: Families that `make proof` shows in a row of their own, by name, with their titles.
FAMILIES: dict[str, str] = {
    "disk": "a disk goes back",
    "metadata": "ZooKeeper goes back",
    "clocks": "wall clocks leap",
    "pauses": "pauses up to an hour",
    "creation": "many partitions are created while roles fail over",
    "host": "a host is resumed from a snapshot",
    "rot": "bytes rot at rest",
    "workers": "a host with several workers dies, or one of them",
    "topics": "a topic is deleted and made again",
    "kept": "a topic is deleted, kept and restored",
    "mixed": "two releases run in one cluster",
    "transactions": "transactions, their words late and twice, their ends cut short",
}

#: Families that only tier A has: no process is put back in time, no host of real processes has workers,
#: operators of tier B make topics again in every run with churn and restore none, and real processes of two
#: releases have tests of their own (tests/upgrade). Real clients with transactions are struck in
#: tests/faults/exactly_once and by the nemesis.
CORES_ONLY = frozenset({"host", "workers", "topics", "kept", "mixed", "transactions"})

KINDS: dict[str, Kind] = {}


def kind(
    draw: Callable[[Cluster, Random], Arguments | None],
    *,
    weight: int = 1,
    needs: str = "",
    family: str = "",
) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Registers the decorated `apply(cluster, **args)` under its name."""

    def add(apply: Callable[..., bool]) -> Callable[..., bool]:
        name = apply.__name__
        assert name not in KINDS, name
        assert not family or family in FAMILIES, family
        KINDS[name] = Kind(name, draw, apply, weight, needs, family)
        return apply

    return add


plan_kind = partial(kind, needs="plans")


def apply(cluster: Cluster, strike: Strike) -> bool:
    """Strike now, whatever `at_ms` says. False: in this state it makes no sense, and nothing happened."""
    return KINDS[strike.kind].apply(cluster, **strike.args)


class Replayer:
    """Plays a given schedule. What no longer makes sense, because an earlier strike is missing, is skipped.

    strikes: those that were applied, as a FaultPlanner keeps them.
    """

    def __init__(self, cluster: Cluster, strikes: Sequence[Strike]) -> None:
        self.cluster = cluster
        self.given = sorted(strikes, key=lambda strike: strike.at_ms)
        self.strikes: list[Strike] = []
        self.stopped = False

    def start(self) -> None:
        events = self.cluster.events
        for strike in self.given:  # one that is older than today's set-up strikes at once
            events.at(max(strike.at_ms, events.now_ms + 1), partial(self._strike, strike))

    def _strike(self, strike: Strike) -> None:
        if not self.stopped and apply(self.cluster, strike):
            self.strikes.append(strike)

    def stop(self) -> None:
        """No strike any more. What has begun goes on until it ends or is healed."""
        self.stopped = True


def to_json(strikes: Sequence[Strike]) -> bytes:
    return msgspec.json.encode(strikes)


def from_json(text: bytes | str) -> tuple[Strike, ...]:
    return msgspec.json.decode(text, type=tuple[Strike, ...])
