"""Controllers as processes over a real ZooKeeper: who is active, how soon, and that two never write."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.ports import PortReservation
from localcluster.zookeeper import ZooKeeper
from tests.kit.controller.controller_process import (
    SESSION_TIMEOUT_MS,
    START_SECONDS_MAX,
    ControllerProcess,
)

#: As long as ZooKeeper allows: a handover must not need it.
LONG_SESSION_MS = 10_000
#: A loaded machine included; alone it takes a tenth of a second.
HANDOVER_SECONDS_MAX = 8.0


@pytest.fixture
def pair(
    zookeeper: ZooKeeper, root: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[list[ControllerProcess]]:
    """Two controllers with long sessions, or such as the test chooses; the first is active."""
    session_ms = getattr(request, "param", LONG_SESSION_MS)
    session = ("--zookeeper-session-timeout-ms", str(session_ms), "--broker-session-timeout-ms", "15000")
    with PortReservation() as ports:
        made = [
            ControllerProcess(
                f"controller-{number}", ports.reserve_free(), zookeeper, root, tmp_path, *session
            )
            for number in (1, 2)
        ]
        try:
            made[0].start()
            made[0].until_active(START_SECONDS_MAX)
            made[1].start()
            yield made
        finally:
            for controller in made:
                controller.http.close()
                controller.process.kill()


def test_sigterm_hands_over_at_once_and_ends_cleanly(pair: list[ControllerProcess]) -> None:
    first, second = pair
    assert (first.is_active, second.is_active) == (True, False)
    first.process._signal(signal.SIGTERM)
    took = second.until_active(HANDOVER_SECONDS_MAX)
    print(f"SIGTERM of the active controller: standby active after {took * 1000:.0f} ms")
    deadline = time.monotonic() + START_SECONDS_MAX
    while first.process.is_running:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert first.process.exit_code == 0
    assert "Traceback" not in first.log()


def test_a_killed_controller_is_replaced_before_its_session_expires(pair: list[ControllerProcess]) -> None:
    first, second = pair
    assert first.create_cluster("prod") == 201
    second.until_watching(first)
    first.process.kill()
    took = second.until_active(HANDOVER_SECONDS_MAX)
    print(f"SIGKILL of the active controller: standby active after {took * 1000:.0f} ms")
    assert second.http.get("/clusters/prod").status_code == 200
    assert second.create_cluster("prod") == 409


@pytest.mark.parametrize("pair", [SESSION_TIMEOUT_MS], indirect=True)
def test_a_paused_controller_is_replaced_after_its_session_and_returns_as_a_standby(
    pair: list[ControllerProcess],
) -> None:
    first, second = pair
    first.process.pause()
    took = second.until_active(START_SECONDS_MAX)
    print(f"SIGSTOP of the active controller: standby active after {took * 1000:.0f} ms")
    assert second.create_cluster("later") == 201
    first.process.resume()
    deadline = time.monotonic() + START_SECONDS_MAX
    while first.create_cluster("stale") not in (307, 503):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (first.is_active, second.is_active) == (False, True)
    assert second.http.get("/clusters/stale").status_code == 404
    # And it can be elected again.
    second.process.kill()
    first.until_active(START_SECONDS_MAX)
    assert first.http.get("/clusters/later").status_code == 200
