"""Operators' guardrails: how a policy is checked, kept and applied to a plan."""

from __future__ import annotations

from controller.database.policy_rows import (
    POLICIES_MAX,
    PolicyRow,
    delete_policy,
    get_policy,
    list_policies,
    put_policy,
)
from controller.policies.facts import TABLES, Facts
from controller.policies.sandbox import (
    SQL_CHARS_MAX,
    BadPolicy,
    Shape,
    Verdict,
    breaches,
    check_policy,
    judge,
    say,
)
