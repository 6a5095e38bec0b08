"""Why a read, a write or a job is refused or ends, and what to do about it. Messages name options and columns
as their users write them."""

from __future__ import annotations


class AdvisedError(Exception):
    """advice: what to do; may be empty. It survives the way from one of Spark's workers, advice and all, and
    follows the message in a traceback, which is all that Spark shows of a task's error."""

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice
        if advice:
            self.add_note(advice)

    @property
    def whole(self) -> str:
        """The message and what to do, where only a text continues."""
        return f"{self}. {self.advice}" if self.advice else str(self)

    def __reduce__(self) -> tuple[type[AdvisedError], tuple[str, str]]:
        return type(self), (str(self), self.advice)


class JobError(AdvisedError):
    """The job can't do what it was asked to."""


class InvalidOption(ValueError):
    """An option is missing, misspelt, contradicts another, or has a value that means nothing."""


class DataLossError(AdvisedError):
    """Records that were to be read are gone, or may be: retention, a deleted topic, a truncated log.

    `failOnDataLoss=false` skips them instead.
    """


class StateError(Exception):
    """The query's own files can't be kept in their place, or are damaged."""


HOW_TO_SKIP = (
    "Some data may have been lost because it is not in the log any more: it was aged out, the topic was "
    "deleted, or the log was truncated. Set the source option 'failOnDataLoss' to 'false' to do without it."
)


class InvalidRows(ValueError):
    """A column is missing or has the wrong type, or a row names a topic or partition that is not there."""


class SinkStateError(Exception):
    """The sink's own files are damaged, can't be kept where they should be, or contradict this attempt."""


class DeliveryFailed(AdvisedError):
    """A task can't deliver its records, or a commit finds that delivered records are gone."""


class LandError(AdvisedError):
    """A landed table, or a batch to be landed, is not as it must be."""


class ReplayError(AdvisedError):
    """A replay's source, plan or progress is not as it must be."""


class CopyUnreadable(AdvisedError):
    """The copy is damaged, gone, or does not hold what its name says. Another try does not help."""


class PlanInvalid(AdvisedError):
    """The kept plan of a merge is damaged or not ours."""


class LogCutAgain(AdvisedError):
    """The log was cut back while it was compared, so the findings don't hold."""
