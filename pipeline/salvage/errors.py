"""Why salvage can't go on, or not with one of the copies."""

from __future__ import annotations


class CopyUnreadable(Exception):
    """The copy on its broker is damaged, gone, or another than its name says. Asking again does not help."""


class PlanInvalid(Exception):
    """What is kept of a merge is none of ours, or is damaged."""


class LogChanged(Exception):
    """The log was cut back while it was compared: what was found holds no more."""
