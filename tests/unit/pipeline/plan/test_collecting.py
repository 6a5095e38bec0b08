"""Load history: what is asked, what is written down, and what is passed over."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.client.values import BrokerLogDir
from pipeline.errors import JobError
from pipeline.plan import words
from pipeline.plan.collecting import Collected, Collector, Schedule, ask_metrics
from pipeline.plan.controller import ClusterReader, ask_disks, free_bytes, least_free
from pipeline.plan.documents import BrokerItem, PartitionItem, PlanItem
from pipeline.plan.eta import MoveWork, Past
from pipeline.plan.history import LoadHistory
from pipeline.plan.report import HistoryRead, Proposal, lines_of, result_of
from pipeline.plan.request import Goal, PartitionRates, plan_body
from pipeline.plan.samples import PARTITIONS, TOPICS, BadMetrics, TopicCounters, parse_metrics
from springtide.cli.call import UsageError
from springtide.cli.client import Controllers, RequestRefused, Unreachable
from springtide.cli.settings import Settings, parse_urls
from springtide.node.tls_files import TlsFiles, TlsMaterial
from springtide.tls import client_context
from springtide.wire.errors import ErrorCode
from tests.kit.springtide.certificates import PrivateCa

NOON_MS = 1_795_348_800_000
METRICS = """\
# TYPE kafka_server_brokertopicmetrics_bytesin_total counter
kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 1.5e+03
kafka_server_brokertopicmetrics_bytesin_total{topic="a\\"b"} 7
# TYPE kafka_server_brokertopicmetrics_bytesout_total counter
kafka_server_brokertopicmetrics_bytesout_total{topic="orders"} 4000
# TYPE kafka_log_log_size gauge
kafka_log_log_size{topic="orders",partition="0"} 9
"""


def item(number: int = 0, **fields: Any) -> PartitionItem:
    told: dict[str, Any] = {
        "topic": "orders",
        "topic_id": "id",
        "partition": number,
        "state": "online",
        "leader": 1,
        "leader_epoch": 3,
        "partition_epoch": 9,
        "replicas": [1, 2],
        "isr": [1, 2],
        "log_start_offset": 0,
        "log_end_offset": 10,
        "size_bytes": 1000,
        "followers": [{"broker_id": 2, "lag_records": 4, "lag_ms": 30}],
        "unknown": "passed over",
    }
    return msgspec.convert(told | fields, PartitionItem)


# --- what answers mean --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "receives"),
    [
        ({}, True),
        ({"cordoned": True}, False),
        ({"draining": True}, False),
        ({"state": "fenced"}, False),
        ({"state": "waiting"}, False),
    ],
)
def test_brokers_that_moves_may_bring_something_to(fields: dict[str, Any], receives: bool) -> None:
    told = {"broker_id": 1, "state": "active", "endpoint": "[::1]:9092", "rack": "r1"} | fields
    assert msgspec.convert(told, BrokerItem).receives is receives


def test_the_request_has_whole_rates_of_what_is_there_and_the_room_of_brokers() -> None:
    partitions = [item(1), item(0), item(0, topic="idle", topic_id="id2")]
    rates = {
        ("id", 1): PartitionRates(1e30, 2.5),
        ("id", 0): PartitionRates(10.4, 0.0),
        ("gone", 0): PartitionRates(9.0, 9.0),
    }
    goal = Goal(("disk", "leaders"), 1_050, 500, 7, disk_reserve=0.25)
    assert plan_body(goal, partitions, rates, {2: 100, 1: 3}, reason="why", expires_in_s=60) == {
        "goal": {
            "kind": "even_out",
            "weights": ["disk", "leaders"],
            "target_permille": 1_050,
            "bytes_max": 500,
            "moves_max": 7,
            "measured": {
                "topics": [
                    {"topic_id": "id", "bytes_in": [10, 2**40], "bytes_out": [0, 2]},
                    {"topic_id": "id2", "bytes_in": [0], "bytes_out": [0]},
                ],
                "brokers": [{"broker_id": 1, "room_bytes": 2}, {"broker_id": 2, "room_bytes": 75}],
            },
        },
        "reason": "why",
        "expires_in_s": 60,
    }


# --- the controller -----------------------------------------------------------------------------------------

Answer = Callable[[httpx.Request], httpx.Response]


def reader(answer: Answer) -> tuple[ClusterReader, list[httpx.Request]]:
    asked: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return answer(request)

    settings = Settings(
        urls=parse_urls("ctl"), cluster="prod", token=None, actor=None, is_json=False, timeout_s=0.0
    )
    client = httpx.Client(transport=httpx.MockTransport(handle))
    controllers = Controllers(client, settings, make_key=lambda: "random", note=lambda line: None)
    return ClusterReader(controllers, "prod"), asked


def page(items: Sequence[Any], token: str | None = None) -> httpx.Response:
    return httpx.Response(200, content=msgspec.json.encode({"items": list(items), "next_page_token": token}))


def test_a_list_that_changes_while_it_is_read_is_read_again_until_it_is_whole() -> None:
    reads = iter([[item(0), item(0)], [item(0), item(1)]])

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/replication"):
            return httpx.Response(200, json={"partitions": 2})
        return page(next(reads))

    found, asked = reader(answer)
    assert [one.partition for one in found.partitions()] == [0, 1]
    assert len(asked) == 4


def test_a_cluster_that_never_holds_still_is_taken_as_it_was_last() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/replication"):
            return httpx.Response(200, json={"partitions": 99})
        return page([item(0)])

    found, asked = reader(answer)
    assert len(found.partitions()) == 1
    assert len(asked) == 6


def test_a_standby_is_not_asked_for_sizes() -> None:
    found, _ = reader(lambda request: httpx.Response(200, json={"items": []}, headers={"Data-Age-Ms": "3"}))
    with pytest.raises(Unreachable, match="is a standby"):
        found.partitions()


@pytest.mark.parametrize(
    "body", ['{"items": [{"partition": -1}]}', '{"items": 3}', "[]", '{"items": [{"topic": 1}]}']
)
def test_what_is_no_answer_of_a_controller_is_refused(body: str) -> None:
    found, _ = reader(lambda request: httpx.Response(200, content=body))
    with pytest.raises(Unreachable, match="no controller"):
        found.partitions()


def test_past_operations_come_with_their_moves_and_throttle() -> None:
    move = {
        "fate": "moved",
        "replicas_before": [1],
        "replicas_after": [2],
        "bytes": 500,
        "begun_at": "2026-11-22T10:00:00.000Z",
        "ended_at": "2026-11-22T10:00:05.000Z",
    }

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/operations/op_1/moves":
            return page([move])
        kinds = request.url.params["kind"]
        told = {"id": "op_1", "kind": kinds, "state": "succeeded", "progress": {"throttle_bytes_per_s": 100}}
        assert request.url.params["cluster"] == "prod"
        return page([told] if kinds == "broker_drain" else [])

    found, _ = reader(answer)
    assert found.past_operations() == [Past(MoveWork(1, 1, 500, 100), 5.0)]


LOAD = {
    "weight": "disk",
    "total": 30 * 2**30,
    "highest": 20 * 2**30,
    "brokers": 3,
    "broker_id": 1,
    "highest_over_mean": 2.0,
}
EVEN = LOAD | {"highest": 10 * 2**30, "highest_over_mean": 1.0, "broker_id": 2}
MOVES = [
    {"topic": "t", "partition": n, "replicas_before": [1, 2], "replicas_after": after, "bytes": copied}
    for n, (after, copied) in enumerate([([3, 2], 5 * 2**30), ([2, 1], 0)])
]
PLAN = {
    "id": None,
    "outcome": "ready",
    "totals": {"moves": 2, "bytes": 5 * 2**30},
    "before": {"loads": [LOAD]},
    "after": {"loads": [EVEN]},
    "moves": MOVES,
    "skipped": [],
}


def test_a_plan_is_shown_without_a_trace_or_kept_once() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return page(MOVES)
        is_dry = "dry_run" in request.url.params
        kept = PLAN | {"id": "plan_1", "moves": MOVES[:1]}
        return httpx.Response(200 if is_dry else 201, json=PLAN if is_dry else kept)

    found, asked = reader(answer)
    body = {"goal": {"kind": "even_out"}}
    assert found.make_plan(body, pins=[3], keep=False).totals.bytes == 5 * 2**30
    assert asked.pop().url.params["dry_run"] == "true"
    for pins in ([3], [3], [4]):
        plan = found.make_plan(body, pins=pins, keep=True)
        assert (plan.id, len(plan.moves)) == ("plan_1", 2)  # the rest is listed
    keys = [request.headers["idempotency-key"] for request in asked if request.method == "POST"]
    assert keys[0] == keys[1] != keys[2]
    assert asked[1].url.path == "/clusters/prod/plans/plan_1/moves"


def test_nothing_to_do_is_an_answer_and_other_refusals_are_none() -> None:
    why = {"weight": "disk", "detail": "disk: t-0 alone is 2.00 times a broker's mean"}
    levels = {"loads": [LOAD]}
    said = {
        "code": "no_improvement",
        "facts": {"reasons": 1, "before": levels, "after": levels, "skipped": [why]},
    }
    found, _ = reader(lambda request: httpx.Response(422, json=said))
    plan = found.make_plan({}, pins=[], keep=True)
    assert (plan.id, plan.outcome, plan.moves) == (None, "no_improvement", [])
    assert plan.before == plan.after
    shown = lines_of(proposal(plan))
    assert "nothing that may be moved helps" in shown
    assert "not evened out: disk: t-0 alone is 2.00 times a broker's mean" in shown
    told = result_of(proposal(plan))
    assert (told["reached"], told["controller"], told["body"]) == (False, None, None)
    assert told["shortfalls"] == [{"load": "disk", "why": why["detail"]}]
    for code in ("unknown_topic", "no_improvement"):
        refusal = httpx.Response(422, json={"code": code, "facts": {}})
        found, _ = reader(lambda _: refusal)  # noqa: B023
        with pytest.raises(RequestRefused):
            found.make_plan({}, pins=[], keep=False)


def proposal(plan: PlanItem, **fields: Any) -> Proposal:
    history = HistoryRead(3, "2026-11-22T10:00:00", "2026-11-22T11:00:00", 3600, "p95")
    told: dict[str, Any] = {"eta": None, "without_history": 0, "unknown_disks": [], "body": {"goal": {}}}
    return Proposal("prod", history, Goal(), plan, **told | fields)


def test_a_plan_is_told_to_people_and_to_programs() -> None:
    plan = msgspec.convert(PLAN | {"id": "plan_1"}, PlanItem)
    shown = lines_of(proposal(plan, is_kept=True, without_history=2))
    assert "2 partitions have no history and count as idle" in shown
    assert "disk  10.0 GiB          2.00       1        1.00       2" in shown
    assert "t-0        1,2   3,2      5.0 GiB" in shown
    assert "t-1        1,2   2,1  leader only" in shown
    assert "2 partitions change, 2 leaders, 5.0 GiB are copied" in shown
    assert shown[-1] == "  springtide plans execute plan_1 --cluster prod"
    told = result_of(proposal(plan, is_kept=True))
    assert told["goal"]["target"] == 1.1
    assert told["before"] == {
        "disk": {"mean": 10.0 * 2**30, "highest": 20 * 2**30, "broker_id": 1, "highest_over_mean": 2.0}
    }
    assert told["moves"][1] == {"topic": "t", "partition": 1, "from": [1, 2], "to": [2, 1], "bytes": 0}
    assert (told["leaders"], told["controller"]["plan_id"]) == (2, "plan_1")


def test_free_bytes_are_those_that_brokers_tell() -> None:
    brokers = [BrokerItem(broker_id=b, state=s, endpoint="h:1") for b, s in enumerate(["active"] * 3)]
    brokers.append(BrokerItem(broker_id=3, state="fenced", endpoint="h:1"))
    assert free_bytes(brokers, lambda one: {0: 5, 1: None, 2: 0}[one.broker_id]) == {0: 5, 2: 0}
    assert (
        least_free([BrokerLogDir("a", ErrorCode.NONE, (), 9), BrokerLogDir("b", ErrorCode.NONE, (), 4)]) == 4
    )
    assert least_free([BrokerLogDir("a", ErrorCode.NONE, ())]) is None


@pytest.mark.parametrize("endpoint", ["127.0.0.1:1", "no endpoint"])
def test_a_broker_that_can_not_be_asked_tells_nothing(endpoint: str) -> None:
    assert ask_disks(BrokerItem(broker_id=1, state="active", endpoint=endpoint)) is None


# --- brokers' counters --------------------------------------------------------------------------------------


def test_counters_are_read_by_topic() -> None:
    assert parse_metrics(METRICS) == [TopicCounters('a"b', 7, 0), TopicCounters("orders", 1500, 4000)]


@pytest.mark.parametrize(
    "told",
    [
        "<html>",
        'kafka_server_brokertopicmetrics_bytesin_total{topic="t"} NaN',
        'kafka_server_brokertopicmetrics_bytesin_total{topic="t"} +Inf',
        'kafka_server_brokertopicmetrics_bytesin_total{topic="t"} -1',
        'kafka_server_brokertopicmetrics_bytesin_total{topic="t"} 1e300',
        "kafka_server_brokertopicmetrics_bytesin_total 1",
    ],
)
def test_pages_that_are_none_are_refused(told: str) -> None:
    with pytest.raises(BadMetrics):
        parse_metrics(told)


@pytest.mark.parametrize("where", ["127.0.0.1:1", "http://[", "ftp://x/y", "no host"])
def test_an_address_where_nothing_is_is_bad_metrics_too(where: str) -> None:
    with pytest.raises(BadMetrics):
        ask_metrics(where)


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(METRICS.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_page_over_tls_is_read_with_a_certificate(tmp_path: Path) -> None:
    ca = PrivateCa(tmp_path)
    keystore = ca.keystore("broker")
    material = TlsMaterial(TlsFiles(keystore=keystore, truststore=ca.file, client_auth="required"))
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        server.socket = material.server.wrap_socket(server.socket, server_side=True)
        url = f"https://127.0.0.1:{server.server_port}/metrics"
        serving = Thread(target=server.serve_forever)
        serving.start()
        try:
            known = client_context(ca=ca.file, cert=keystore, key=keystore)
            assert ask_metrics(url, verify=known) == parse_metrics(METRICS)
            for stranger in (True, client_context(ca=ca.file, cert=None, key=None)):
                with pytest.raises(BadMetrics):
                    ask_metrics(url, verify=stranger)
        finally:
            server.shutdown()
            serving.join()


# --- collecting ---------------------------------------------------------------------------------------------


class World:
    """A cluster, a clock and a store, all of values."""

    def __init__(self, *answers: list[PartitionItem] | Exception) -> None:
        self.answers = list(answers)
        self.now_ms = NOON_MS
        self.sample_ms = 0
        self.slept: list[int] = []
        self.notes: list[str] = []
        self.written: list[tuple[str, int, int, pa.Table]] = []

    def partitions(self) -> list[PartitionItem]:
        self.now_ms += self.sample_ms
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def append(self, name: str, batches: list[pa.RecordBatch], *, first_ms: int, last_ms: int) -> str | None:
        self.written.append((name, first_ms, last_ms, pa.Table.from_batches(batches)))
        return f"{name}-{first_ms}"

    def sleep(self, ms: int) -> None:
        self.slept.append(ms)
        self.now_ms += ms

    def ask_metrics(self, where: str) -> Sequence[TopicCounters]:
        if where == "down":
            raise BadMetrics("down: Connection refused")
        return [TopicCounters("orders", 5, 6)]

    def collector(self, *, sleep_ms: Callable[[int], None] | None = None, dry: bool = False) -> Collector:
        return Collector(
            "prod",
            self,
            None if dry else self,
            metrics={1: "up", 2: "down"},
            ask_metrics=self.ask_metrics,
            now_ms=lambda: self.now_ms,
            sleep_ms=sleep_ms or self.sleep,
            note=self.notes.append,
        )


def test_samples_lie_evenly_apart_and_are_written_a_few_at_a_time() -> None:
    world = World([item(0), item(1, log_end_offset=None, size_bytes=None, followers=[], leader=None)])
    world.sample_ms = 300
    collected = world.collector().run(Schedule(every_ms=1000, samples=5, each_file=2))
    assert collected == Collected(
        5, 2, 0, tuple(f"{t}-{NOON_MS + ms}" for ms in (0, 2000, 4000) for t in ("partitions", "topics"))
    )
    assert world.slept == [700] * 4
    name, first_ms, last_ms, rows = world.written[0]
    assert (name, first_ms, last_ms, rows.num_rows) == ("partitions", NOON_MS, NOON_MS + 1000, 4)
    assert rows.schema.equals(PARTITIONS)
    one, other = rows.to_pylist()[:2]
    assert one | {"sampled_at": 0} == {
        "sampled_at": 0,
        "cluster": "prod",
        "topic": "orders",
        "topic_id": "id",
        "partition": 0,
        "leader": 1,
        "leader_epoch": 3,
        "replicas": [1, 2],
        "log_start_offset": 0,
        "log_end_offset": 10,
        "size_bytes": 1000,
        "lag_records_max": 4,
        "lag_ms_max": 30,
    }
    assert one["sampled_at"].timestamp() * 1000 == NOON_MS
    assert [other[name] for name in ("leader", "log_end_offset", "size_bytes", "lag_ms_max")] == [None] * 4
    name, _, _, rows = world.written[1]
    assert rows.schema.equals(TOPICS)
    assert [(r["broker_id"], r["topic"], r["bytes_out"]) for r in rows.to_pylist()] == [(1, "orders", 6)] * 2
    assert set(world.notes) == {"broker 2: down: Connection refused"}


def test_a_sample_that_takes_long_makes_the_next_one_late_and_not_double() -> None:
    world = World([item()])
    world.sample_ms = 2500
    world.collector().run(Schedule(every_ms=1000, samples=3))
    assert world.slept == [0, 0]


def test_a_sample_that_can_not_be_taken_is_a_gap_but_not_the_first() -> None:
    world = World([item()], Unreachable("nobody"), [item()])
    collected = world.collector().run(Schedule(every_ms=1000, samples=4))
    assert (collected.samples, collected.missed) == (3, 1)
    assert "no sample: nobody" in world.notes
    with pytest.raises(Unreachable):
        World(Unreachable("nobody")).collector().run(Schedule(every_ms=1000, samples=4))
    with pytest.raises(RequestRefused):
        World([item()], RequestRefused(404, b"{}")).collector().run(Schedule(every_ms=1000, samples=4))


@pytest.mark.parametrize("samples", [None, 9])
def test_what_is_in_memory_is_written_when_it_is_interrupted(samples: int | None) -> None:
    world = World([item()])

    def interrupted(ms: int) -> None:
        world.sleep(ms)
        if len(world.slept) == 3:
            raise KeyboardInterrupt

    collector = world.collector(sleep_ms=interrupted)
    if samples is None:
        assert collector.run(Schedule(every_ms=1000, samples=None)).samples == 3
    else:
        with pytest.raises(KeyboardInterrupt):
            collector.run(Schedule(every_ms=1000, samples=samples))
    assert world.written[0][3].num_rows == 3


def test_a_dry_run_writes_nothing() -> None:
    world = World([item()])
    assert world.collector(dry=True).run(Schedule(every_ms=1000, samples=1)).files == ()
    assert world.written == []


# --- files --------------------------------------------------------------------------------------------------


def test_files_have_days_and_names_of_their_own_and_appear_whole(tmp_path: Path) -> None:
    history = LoadHistory(str(tmp_path / "load"))
    assert not history.has("topics")
    rows = pa.RecordBatch.from_pylist(
        [
            {
                "sampled_at": NOON_MS,
                "cluster": "c",
                "broker_id": 1,
                "topic": "t",
                "bytes_in": 1,
                "bytes_out": 2,
            }
        ],
        schema=TOPICS,
    )
    names = [history.append("topics", [rows, rows], first_ms=NOON_MS, last_ms=NOON_MS + 9) for _ in range(2)]
    found = sorted(tmp_path.rglob("*.parquet"))
    assert sorted(f"load/{name}" for name in names) == [str(path.relative_to(tmp_path)) for path in found]
    assert f"/topics/date=2026-11-22/{NOON_MS}-{NOON_MS + 9}-" in str(found[0])
    assert [pq.read_table(path, partitioning=None).num_rows for path in found] == [2, 2]
    assert len(list(tmp_path.rglob(".*"))) == 0
    assert history.has("topics")
    assert history.append("topics", [rows.slice(0, 0)], first_ms=0, last_ms=0) is None
    assert history.table("topics") == (tmp_path / "load" / "topics").as_uri()


def test_places_that_are_none_and_files_in_the_way_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no place for a history"):
        LoadHistory("nothing://x/y")
    (tmp_path / "file").write_text("")
    rows = pa.RecordBatch.from_pylist(
        [{"sampled_at": 0, "cluster": "c", "broker_id": 1, "topic": "t", "bytes_in": 1, "bytes_out": 2}],
        schema=TOPICS,
    )
    with pytest.raises(JobError, match="can't be written"):
        LoadHistory(str(tmp_path / "file")).append("topics", [rows], first_ms=0, last_ms=0)


# --- words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (words.size, "500", 500),
        (words.size, "64M", 64 * 2**20),
        (words.size, "1.5TB", 3 * 2**39),
        (words.span, "90s", 90.0),
        (words.span, "0.5h", 1800.0),
        (words.span, "1w", 604_800.0),
        (words.share, "0", 0.0),
        (words.target, "1.05", 1_050),
        (words.weights, "bytes_out,disk,disk", ("bytes_out", "disk")),
        (words.address, "4=store4:9192", (4, "store4:9192")),
    ],
)
def test_words_are_understood(read: Callable[[str], Any], text: str, value: Any) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *((words.size, text) for text in ("", "-1", "1X", "1e9", "٣", "1" * 16)),
        *((words.span, text) for text in ("", "5", "0s", "-1h", "1y", "1h30m")),
        *((words.share, text) for text in ("1", "-0.1", "nan", "x")),
        *((words.target, text) for text in ("1", "0.9", "inf", "nan", "")),
        *((words.weights, text) for text in ("", "cpu", "disk,,cpu")),
        *((words.address, text) for text in ("", "store:9192", "1=", "-1=x", "1=a b")),
    ],
)
def test_words_that_make_no_sense_are_refused(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        read(text)


def test_spans_are_shown_in_the_unit_that_fits() -> None:
    shown = [words.shown_span(seconds) for seconds in (0.4, 119, 121, 7201, 200_000)]
    assert shown == ["0 s", "119 s", "2 min", "2.0 h", "2.3 d"]
