"""Bugs about deleted topics that are kept: their logs, and who may lead what is restored."""

from __future__ import annotations

from typing import Any

import msgspec

from controller.core import kept_topics, sessions
from dataplane.core.applying import Applying
from tests.simulation.planted.plant import Patches, plant


@plant(
    breaks="I22",
    seen="here: what is deleted at once and what is kept came as one list of ids (S92)",
    scenario="S92",
    family="kept",
)
def kept_logs_are_deleted() -> Patches:
    return [(Applying, "_keep_topic", Applying._delete_topic)]


@plant(
    breaks="I11",
    seen="here: a broker that lost power keeps its seats in topics that are not there (S92)",
    scenario="S92",
    family="kept",
)
def kept_seats_are_never_lost() -> Patches:
    return [(sessions, "vacate_kept_seats", lambda draft, broker_id, change: None)]


@plant(
    breaks="I1",
    seen="here: each replica of a restored topic is in sync, because all have a log (S92)",
    scenario="S92",
    family="kept",
)
def all_replicas_are_restored_in_sync() -> Patches:
    restored = kept_topics._restored

    def too_many(*args: Any) -> Any:
        state = restored(*args)
        return msgspec.structs.replace(state, isr=state.replicas, elr=())

    return [(kept_topics, "_restored", too_many)]
