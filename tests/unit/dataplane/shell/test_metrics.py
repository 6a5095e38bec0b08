"""The status pages, over a real socket."""

from __future__ import annotations

import trio
import trio.testing

from dataplane.shell.metrics import BrokerCounters, collect_counters
from springtide.node.clock import MachineClock
from springtide.node.net import SystemNet
from springtide.node.status import REQUEST_BYTES_MAX, MetricsCollector, StatusServer
from springtide.node.threads import TrioThreads


def out_of_sync(red_seconds_max: int | None) -> tuple[bool, str]:
    return red_seconds_max == 0, f"out of sync, bound {red_seconds_max}"


def get(*requests: bytes, is_ready: bool = True, notes: tuple[str, ...] = ()) -> list[bytes]:
    """The whole answer to each request, one connection each."""
    counters = BrokerCounters()
    counters.requests[0] = 7
    counters.reassignment_bytes_in, counters.reassignment_bytes_out = 11, 12
    counters.verifications, counters.verification_failures, counters.verification_ms = 13, 1, 140
    answers: list[bytes] = []

    async def run() -> None:
        server = StatusServer(
            listener=await SystemNet().listen("127.0.0.1", 0),
            collector=MetricsCollector([lambda: collect_counters(counters, now_us=1_000_000)]),
            is_ready=lambda: is_ready,
            notes=lambda: notes,
            in_sync=out_of_sync,
            clock=MachineClock(),
            threads=TrioThreads(),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.serve)
            await trio.testing.wait_all_tasks_blocked()
            for request in requests:
                async with await trio.open_tcp_stream(*server.address) as stream:
                    await stream.send_all(request)
                    answer = b""
                    async for received in stream:
                        answer += received
                    answers.append(answer)
            nursery.cancel_scope.cancel()

    trio.run(run)
    return answers


def test_metrics_carry_the_names_that_dashboards_know() -> None:
    (answer,) = get(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"kafka_server_brokertopicmetrics_totalproducerequests_total 7.0\n" in answer
    assert b'kafka_network_requestmetrics_requests_total{request="Produce"} 7.0\n' in answer
    assert b"kafka_server_brokertopicmetrics_reassignmentbytesin_total 11.0\n" in answer
    assert b"kafka_server_brokertopicmetrics_reassignmentbytesout_total 12.0\n" in answer
    assert b"kafka_server_addpartitionstotxnmanager_verifications_total 13.0\n" in answer
    assert b"kafka_server_addpartitionstotxnmanager_verificationfailure_total 1.0\n" in answer
    assert b"kafka_server_addpartitionstotxnmanager_verificationtimems_total 140.0\n" in answer


def test_readiness_is_told_by_status() -> None:
    assert get(b"GET /readyz HTTP/1.1\r\n\r\n")[0].startswith(b"HTTP/1.1 200")
    assert get(b"GET /readyz HTTP/1.1\r\n\r\n", is_ready=False)[0].startswith(b"HTTP/1.1 503")


def test_what_an_operator_should_know_stands_behind_that_the_process_lives() -> None:
    (answer,) = get(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert answer.endswith(b"\r\n\r\nalive\n")
    (answer,) = get(b"GET /healthz HTTP/1.1\r\n\r\n", notes=("the controller is old", "broker 3 is, too"))
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\nalive\nthe controller is old\nbroker 3 is, too\n")


def test_readiness_with_the_isr_is_asked_for_by_name() -> None:
    answers = get(
        b"GET /readyz?in-sync HTTP/1.1\r\n\r\n",
        b"GET /readyz?in-sync=0 HTTP/1.1\r\n\r\n",
        b"GET /readyz?in-sync=60 HTTP/1.1\r\n\r\n",
        b"GET /readyz HTTP/1.1\r\n\r\n",
    )
    assert [answer[9:12] for answer in answers] == [b"503", b"200", b"503", b"200"]
    assert answers[0].endswith(b"out of sync, bound None\n")
    assert answers[2].endswith(b"out of sync, bound 60\n")
    (answer,) = get(b"GET /readyz?in-sync=0 HTTP/1.1\r\n\r\n", is_ready=False)
    assert answer.startswith(b"HTTP/1.1 503")


def test_readiness_that_was_asked_for_wrongly_is_no_readiness() -> None:
    """A probe with a slip in it must not be green."""
    wrong = (
        b"insync",
        b"in-sync=",
        b"in-sync=-1",
        b"in-sync=1.5",
        b"in-sync=604801",
        b"in-sync=" + b"9" * 500,
    )
    for answer in get(*(b"GET /readyz?" + one + b" HTTP/1.1\r\n\r\n" for one in wrong)):
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"in-sync=N" in answer


def test_anything_else_gets_an_error_and_the_server_lives() -> None:
    answers = get(
        b"POST /metrics HTTP/1.1\r\n\r\n",
        b"GET /etc/passwd HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\r\n\r\n",
        b"x" * REQUEST_BYTES_MAX,
        b"GET /healthz HTTP/1.1\r\n\r\n",
    )
    assert [answer[9:12] for answer in answers] == [b"405", b"404", b"400", b"400", b"200"]
