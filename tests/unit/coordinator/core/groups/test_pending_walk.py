"""Offsets of transactions in a random world (tests/kit/coordinator/pending_walk.py says what must hold)."""

from __future__ import annotations

from hypothesis import settings

from tests.kit.coordinator.pending_walk import PendingWalk

TestPendingWalk = PendingWalk.TestCase
TestPendingWalk.settings = settings(max_examples=60, stateful_step_count=40)
