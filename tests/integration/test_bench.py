"""A small benchmark of real clusters: that it measures what it is asked, never how fast."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bench.racks import DELAY_S, Racks
from localcluster.ports import LOOPBACK

pytestmark = pytest.mark.timeout(290)

CASES = (
    *("idle-brokers", "produce-all-66k-1x8", "tail-100b-1x1", "client-consume-100b", "catch-up"),
    *("produce-all-66k-4x4-readers-behind", "produce-all-100b-8x1-acls", "produce-all-66k-4x4-racks"),
)
"""Each kind of load, the pipe, a broker that is away, and each setup but TLS, which is that of ACLs, too."""


@pytest.mark.slow
def test_each_kind_of_row_is_measured_and_drawn(tmp_path: Path) -> None:
    output = tmp_path / "bench.json"
    chosen = [argument for case in CASES for argument in ("--case", case)]
    ended = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--seconds", "1", "--output", str(output), *chosen],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    measured = {row["case"]: row for row in json.loads(output.read_text("utf-8"))["cases"]}
    assert sorted(measured) == sorted(CASES)
    assert measured["produce-all-66k-1x8"]["pipe_share"] > 0
    page = output.with_suffix(".html").read_text("utf-8")
    assert all(case in page and case in ended.stdout for case in CASES)


def test_what_brokers_of_two_racks_say_arrives_whole_and_later_each_way() -> None:
    said = bytes(range(256)) * 4096
    with Racks([1]) as racks, socket.create_server((LOOPBACK, racks.inner[1])) as broker:
        threading.Thread(target=echo, args=(broker, len(said))).start()
        with socket.create_connection((LOOPBACK, racks.outer[1])) as other:
            began = time.perf_counter()
            other.sendall(said)
            with other.makefile("rb") as stream:
                assert stream.read() == said
            assert time.perf_counter() - began >= 2 * DELAY_S


def echo(broker: socket.socket, size: int) -> None:
    """Answer the first connection that says so much with the same, and close it. The one that only asks
    whether the forwarder listens says nothing."""
    said = b""
    while not said:
        connected, _ = broker.accept()
        with connected, connected.makefile("rb") as stream:
            said = stream.read(size)
            connected.sendall(said)
