"""What a load process is told."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from bench.case import Case
from bench.cases import CASES
from bench.load_spec import LoadSpec, spec_from_json


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_load_process_is_told_the_whole_case(case: Case) -> None:
    spec = LoadSpec(
        case=case,
        topic="t",
        bootstrap_servers="h:1",
        broker_pids=(1, 2),
        warmup_s=1.0,
        duration_s=2.0,
        cert_file="bench.pem",
        backlog_topic="t-full",
    )
    told = spec_from_json(json.loads(json.dumps(asdict(spec))))
    assert told == spec
    assert told.case.description == case.description
