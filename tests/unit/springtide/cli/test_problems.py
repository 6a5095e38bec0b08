"""Refusals in words."""

from __future__ import annotations

import json

import pytest

from springtide.cli.problems import OF_ANOTHER_RELEASE, problem_lines


@pytest.mark.parametrize(("code", "status"), [("not_found", 404), ("method_not_allowed", 405)])
def test_a_command_that_the_controller_does_not_know_names_the_releases(code: str, status: int) -> None:
    """`springtide upgrade status`, asked of a controller of the release before."""
    problem = {"title": "There is nothing at this address", "code": code, "hint": "see /docs"}
    first, hint = problem_lines(status, json.dumps(problem).encode())
    assert first == f"There is nothing at this address ({code}, {status})"
    assert hint == f"  hint: {OF_ANOTHER_RELEASE}"


def test_what_is_not_there_keeps_its_own_hint() -> None:
    problem = {"title": "No such cluster", "code": "cluster_not_found", "hint": "GET /clusters"}
    assert problem_lines(404, json.dumps(problem).encode())[1] == "  hint: GET /clusters"
