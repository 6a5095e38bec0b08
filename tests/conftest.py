"""What every kind of test shares: options of the command line, and clusters of real processes.

Property tests (hypothesis) draw the same examples on every machine and at every run, and never fail for being
slow: the profile `fixed`. `pytest --hypothesis-profile=random` draws new ones; a failure then prints the
`@reproduce_failure` line that makes the example a test.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from localcluster.cluster import LocalCluster
from springtide.log_lines import QUIET_LIBRARIES
from tests.proof.plan import TURNS, of_turn

pytest.register_assert_rewrite("tests.kit")

ON_ANY_MACHINE: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("fixed", derandomize=True, **ON_ANY_MACHINE)
settings.register_profile("random", **ON_ANY_MACHINE)
settings.load_profile("fixed")


def pytest_configure(config: pytest.Config) -> None:
    # kafka-python 3.0 reads its schemas through old functions while it is imported, before any mark applies.
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")


def pytest_collection_finish() -> None:
    """Spare the collector what stays to the end: modules and the tests themselves, half a million objects.
    To go through them again and again took a tenth of the time of unit tests."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rounds",
        type=int,
        default=1,
        help="kills of each role in the fault tests (default 1)",
    )
    parser.addoption(
        "--frames",
        type=int,
        default=int(os.environ.get("FRAMES", "100000")),
        help="bad frames in the long wire test (default: $FRAMES or 100000)",
    )
    parser.addoption(
        "--turn",
        type=int,
        choices=range(TURNS),
        help="of the files with slow tests only a third: those whose turn it is (default: all)",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_slow = [item.get_closest_marker("slow") is not None for item in items]
    slow_files = sorted({item.path for item, slow in zip(items, is_slow, strict=True) if slow})
    of_this = of_turn(slow_files, config.getoption("turn"))
    left = [item for item, slow in zip(items, is_slow, strict=True) if slow and item.path not in of_this]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Undo what a command that ran in this process did to logging: later tests would log to a closed
    stream, each of their log lines would be a traceback, and a quiet library would stay quiet for them. One
    handler catches the lines of all tests: what a test formats with, others would read."""
    root = logging.getLogger()
    handlers, excepthook = [(handler, handler.formatter) for handler in root.handlers], sys.excepthook
    levels = [(logger, logger.level) for logger in map(logging.getLogger, (None, *QUIET_LIBRARIES))]
    yield
    for logger, level in levels:
        logger.setLevel(level)
    root.handlers[:] = [handler for handler, _ in handlers]
    for handler, formatter in handlers:
        handler.setFormatter(formatter)
    sys.excepthook = excepthook
    logging.captureWarnings(False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Repeats the table of what was tried just above the last line, which is what people read of a CI run."""
    table = os.environ.get("PROOF_TABLE")
    if table and Path(table).is_file():
        terminalreporter.section("proof")
        terminalreporter.write_line(Path(table).read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def rounds(pytestconfig: pytest.Config) -> int:
    value: int = pytestconfig.getoption("--rounds")
    return value


@pytest.fixture(scope="session")
def bad_frames(pytestconfig: pytest.Config) -> int:
    value: int = pytestconfig.getoption("--frames")
    return value


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[LocalCluster]:
    """Three brokers and a controller that no test of this session breaks. Tests write records of years ago,
    and on a slow machine the session outlives the first look of retention: there is none."""
    with LocalCluster(broker_config={"log.retention.check.interval.ms": "86400000"}) as cluster:
        cluster.form()
        yield cluster


@pytest.fixture
def make_topic(running_cluster: LocalCluster) -> Callable[..., str]:
    """Creates a topic of its own for a test; returns its name."""

    def make(prefix: str = "t", *, partitions: int = 1, **configs: str) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        running_cluster.create_topic(
            name,
            partitions=partitions,
            replication_factor=3,
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )
        return name

    return make
