"""Why a write is refused or ends. Messages name options and columns as their users write them."""

from __future__ import annotations


class InvalidSinkOption(ValueError):
    """An option is missing, contradicts another, or has a value that means nothing."""


class InvalidRows(ValueError):
    """A column is missing or has the wrong type, or a row names a topic or partition that is not there."""


class SinkStateError(Exception):
    """The sink's own files are damaged, can't be kept where they should be, or contradict this attempt."""


class DeliveryFailed(Exception):
    """A task can't deliver its records, or a commit finds that delivered records are gone."""
