"""Late markers at a leader in a random world (tests/kit/dataplane/marker_walk.py says what must hold)."""

from __future__ import annotations

from hypothesis import settings

from tests.kit.dataplane.marker_walk import MarkerWalk

TestMarkerWalk = MarkerWalk.TestCase
TestMarkerWalk.settings = settings(max_examples=60, stateful_step_count=40)
