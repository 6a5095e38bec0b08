"""Bugs about topics that are deleted and made again: when their name is free."""

from __future__ import annotations

from controller.core import deletions
from controller.core.deletions import Deletions
from tests.simulation.planted.plant import Patches, plant


@plant(
    breaks="I39",
    seen="here: a name is free as soon as its deletion has begun, and its leader has not heard of it (S86)",
    scenario="S86",
    family="topics",
)
def name_free_at_once() -> Patches:
    return [(Deletions, "_have_stopped", lambda self, draft, sessions, topic_id, now_ms: True)]


@plant(
    breaks="I39",
    seen="here: a fenced leader is taken to be silent, although a follower is cut off with it (S86)",
    scenario="S86",
    family="topics",
)
def fenced_leader_taken_for_silent() -> Patches:
    return [(deletions, "_may_go_on", lambda state, fenced: False)]
