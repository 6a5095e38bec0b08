"""Answers about coordinators of `prod`: the first serves client groups, the second waits to be admitted."""

from __future__ import annotations

from typing import Final

from admin_api.openapi.examples.story import CHANGE, Shown, items

_ACTIVE: Final = {
    "coordinator_id": 1001,
    "state": "active",
    "draining": False,
    "drained": False,
    "demoted": False,
    "endpoint": "desk1:9092",
    "listeners": [],
    "rack": "r1",
    "coordinator_epoch": 17,
    "incarnation_id": "9f0c5b1e6d3a4c7f8e2b1a0d5c4f3e2b",
    "version": "0.2.0",
    "registered_at": "2026-11-21T08:00:12.433Z",
    "shards": 50,
    "followed_shards": 0,
    "last_change": CHANGE | {"cause": "coordinator_unfenced", "actor": "controller", "reason": None},
}
_WAITING: Final = _ACTIVE | {
    "coordinator_id": 1002,
    "state": "waiting",
    "endpoint": "desk2:9092",
    "rack": "r2",
    "coordinator_epoch": 18,
    "shards": 0,
    "last_change": CHANGE | {"cause": "coordinator_registered", "actor": "coordinator:1002", "reason": None},
}
_ADMITTED: Final = _WAITING | {"state": "fenced", "last_change": CHANGE | {"cause": "coordinator_admitted"}}

COORDINATORS: Final[dict[tuple[str, int], tuple[Shown, ...]]] = {
    ("listCoordinators", 200): (
        Shown("two", "One active, one waiting to be admitted", items(_ACTIVE, _WAITING)),
    ),
    ("getCoordinator", 200): (Shown("active", "An active coordinator", _ACTIVE),),
    ("admitCoordinators", 200): (
        Shown("admitted", "It is active once it has heard of it", {"items": [_ADMITTED]}),
    ),
    ("changeCoordinator", 200): (
        Shown(
            "draining",
            "It gives its shards away",
            _ACTIVE | {"draining": True, "last_change": CHANGE | {"cause": "coordinator_maintenance"}},
        ),
    ),
}
