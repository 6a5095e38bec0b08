"""`consumer` groups in a random world (tests/kit/coordinator/consumer_walk.py says what must hold): few
steps, for the proof walks further (tests/simulation/random_walks.py).

KAFKA-17306: there a group whose log was compacted could not be loaded. Each walk compacts its log."""

from __future__ import annotations

from hypothesis import settings

from tests.kit.coordinator.consumer_walk import ConsumerWalk

TestConsumerWalk = ConsumerWalk.TestCase
TestConsumerWalk.settings = settings(max_examples=15, stateful_step_count=40)
