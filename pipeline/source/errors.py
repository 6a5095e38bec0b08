"""Why a read is refused or ends. Messages name options as their users write them."""

from __future__ import annotations


class InvalidOption(ValueError):
    """An option is missing, misspelt, contradicts another, or has a value that means nothing."""


class DataLossError(Exception):
    """Records that were to be read are gone, or may be: retention, a deleted topic, a truncated log.

    `failOnDataLoss=false` skips them instead.
    """


class StateError(Exception):
    """The query's own files can't be kept where they should be, or are damaged."""


HOW_TO_SKIP = (
    "Some data may have been lost because it is not in the log any more: it was aged out, the topic was "
    "deleted, or the log was truncated. Set the source option 'failOnDataLoss' to 'false' to do without it."
)
