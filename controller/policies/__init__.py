"""Policies: an operator's own guardrails, as SELECTs over a plan and its cluster that must return no rows."""
