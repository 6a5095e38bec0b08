"""Groups in a random world (tests/kit/coordinator/group_walk.py says what must hold)."""

from __future__ import annotations

from hypothesis import settings

from tests.kit.coordinator.group_walk import GroupWalk

TestGroupWalk = GroupWalk.TestCase
TestGroupWalk.settings = settings(max_examples=60, stateful_step_count=40)
