"""Carries operations out: the runner, the plans that it makes and keeps, the guardrails that it asks."""
