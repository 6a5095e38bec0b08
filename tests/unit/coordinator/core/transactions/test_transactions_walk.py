"""Transactions in a random world (tests/kit/coordinator/transaction_walk.py says what must hold)."""

from __future__ import annotations

from hypothesis import settings

from tests.kit.coordinator.transaction_walk import TransactionWalk

TestTransactionWalk = TransactionWalk.TestCase
TestTransactionWalk.settings = settings(max_examples=60, stateful_step_count=40)
