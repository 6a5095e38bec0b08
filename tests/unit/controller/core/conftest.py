from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.controller.script import Scripted
from tests.kit.transcripts import check


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Scripted]:
    """Three brokers, whose script and answers must at last be those of the file's transcript."""
    cluster = Scripted()
    yield cluster
    tests = [name for name in vars(request.module) if name.startswith("test_")]
    check(request.path.with_suffix(".transcript"), request.node.name, cluster.transcript, tests)
