"""Problem codes as they travel from brokers to controllers."""

from __future__ import annotations

import msgspec
import pytest

from springtide.contract.lag_report import ProblemCode, ReplicaProblem


@pytest.mark.parametrize("code", list(ProblemCode))
def test_a_code_travels_as_its_name(code: ProblemCode) -> None:
    problem = ReplicaProblem(topic_id="t", partition=0, code=code, detail="d")
    encoded = msgspec.json.encode(problem)
    assert f'"code":"{code.value}"'.encode() in encoded
    assert msgspec.json.decode(encoded, type=ReplicaProblem) == problem


def test_a_code_of_a_later_release_does_not_spoil_the_report() -> None:
    encoded = b'{"topic_id":"t","partition":0,"code":"of_next_year","detail":"d"}'
    assert msgspec.json.decode(encoded, type=ReplicaProblem).code is ProblemCode.OTHER
