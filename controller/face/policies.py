"""Operators' guardrails: how a policy is checked, kept and applied, and a protected cluster's approvals."""

from __future__ import annotations

from controller.database.policy_rows import (
    POLICIES_MAX,
    PolicyRow,
    delete_policy,
    get_policy,
    list_policies,
    put_policy,
)
from controller.operations.shell.guarding import is_protected, needs_approval, verdicts_on
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
