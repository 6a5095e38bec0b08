"""A secret that is typed, or read from a pipe."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from springtide.cli.call import UsageError
from springtide.cli.secret import read_secret


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def typing(*answers: str) -> tuple[Callable[[str], str], list[str]]:
    """Return a person who types these, and the questions that were asked."""
    asked: list[str] = []

    def ask(question: str) -> str:
        asked.append(question)
        return answers[len(asked) - 1]

    return ask, asked


def test_a_person_types_it_twice() -> None:
    ask, asked = typing("s3cret", "s3cret")
    assert read_secret("Password", Terminal("not this"), ask=ask) == "s3cret"
    assert asked == ["Password: ", "Password, once more: "]


@pytest.mark.parametrize("answers", [("s3cret", "s3cert"), ("",)])
def test_a_slip_or_nothing_is_no_secret(answers: tuple[str, ...]) -> None:
    ask, _ = typing(*answers)
    with pytest.raises(UsageError) as refused:
        read_secret("Password", Terminal(), ask=ask)
    assert "s3c" not in str(refused.value)


def test_a_process_without_standard_input_has_none() -> None:
    with pytest.raises(UsageError):
        read_secret("Password", None)
