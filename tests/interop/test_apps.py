"""Applications of `make interop-apps`, as far as a commit's time goes, and what tells a failure of theirs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from tests.interop.apps import runs
from tests.interop.apps.__main__ import SPRINGTIDE, failures_of_ours
from tests.interop.apps.app import LINES, App, Command, Place
from tests.interop.apps.catalogue import APPLICATIONS
from tests.interop.apps.installs import Pip
from tests.interop.apps.runs import Cluster, Outcome, Verdict, run
from tests.interop.apps.table import render, render_needs
from tests.interop.clients import ROOT

pytestmark = [pytest.mark.timeout(300)]
CHOSEN = ("kcat-write", "kcat-read", "rsyslog", "faststream-aiokafka")
"""The cheapest to install."""
NOTHING_BY_PIP = Pip(())
KAFKA = "Apache Kafka 4.4.0"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with LocalCluster(brokers=3, coordinators=1) as local:
        local.form()
        local.make_topics_on_first_use()
        nodes = (*local.brokers.values(), *local.coordinators.values())
        yield Cluster(SPRINGTIDE, local.bootstrap_servers, lambda: [node.metrics() for node in nodes])


@pytest.fixture
def writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    """An application of the project's own Python, which writes what it is told to."""
    monkeypatch.setattr(runs, "install_into", lambda install, folder: None)
    monkeypatch.setattr(runs, "BUILD", tmp_path)
    return App("writer", "write", "lines to a topic", NOTHING_BY_PIP, _writing(LINES))


def _writing(lines: tuple[str, ...], first: str = "") -> Callable[[Place], Command]:
    program = f"""
import os
{first}
from confluent_kafka import Producer
producer = Producer({{"bootstrap.servers": os.environ["BOOTSTRAP"]}})
for line in {lines!r}:
    producer.produce(os.environ["TARGET"], line)
assert producer.flush(30) == 0
"""

    def command(place: Place) -> Command:
        return Command([sys.executable, "-c", program])

    return command


@pytest.mark.parametrize("name", CHOSEN)
def test_an_application_does_its_main_job_at_its_defaults(cluster: Cluster, name: str) -> None:
    app = next(one for one in APPLICATIONS if one.name == name)
    outcome = run(app, cluster, has_to_install=True)
    if outcome.verdict == "not installed":
        pytest.skip(outcome.detail)
    assert (outcome.verdict, outcome.detail) == ("works", "")


def test_a_line_that_is_missing_or_doubled_is_a_failure(cluster: Cluster, writer: App) -> None:
    short = replace(writer, command=_writing(LINES[:-1]))
    twice = replace(writer, command=_writing((*LINES, LINES[0])))
    for app in (short, twice):
        outcome = run(app, cluster, has_to_install=True, seconds=1)
        assert outcome.verdict == "fails"
        assert "values" in outcome.detail


PIPE = """
import os
from confluent_kafka import Consumer, Producer
transactional = {"transactional.id": os.environ["GROUP"]} if IS_EXACT else {}
producer = Producer({"bootstrap.servers": os.environ["BOOTSTRAP"], **transactional})
group = {"group.id": os.environ["GROUP"], "session.timeout.ms": 6000, "auto.offset.reset": "earliest"}
server = {"bootstrap.servers": os.environ["BOOTSTRAP"], "topic.metadata.refresh.interval.ms": 500}
consumer = Consumer({**server, **group, "enable.auto.commit": not IS_EXACT, "auto.commit.interval.ms": 60000})
consumer.subscribe([os.environ["SOURCE"]])
if IS_EXACT:
    producer.init_transactions()
while True:
    if IS_EXACT:
        producer.begin_transaction()
    for message in consumer.consume(1000, timeout=1.0):
        if message.error() is None:
            producer.produce(os.environ["TARGET"], message.value().upper())
    producer.flush()
    if IS_EXACT:
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
        producer.commit_transaction()
"""


@pytest.mark.parametrize(("is_exact", "verdict"), [(True, "works"), (False, "fails")])
def test_what_is_killed_in_the_middle_has_each_line_once_only_by_transactions(
    cluster: Cluster, writer: App, is_exact: bool, verdict: Verdict
) -> None:
    program = PIPE.replace("IS_EXACT", str(is_exact))
    pipe = replace(
        writer,
        kind="pipe",
        command=lambda place: Command([sys.executable, "-c", program]),
        exactly_once=True,
    )
    outcome = run(pipe, cluster, has_to_install=True)
    assert outcome.verdict == verdict, outcome.detail
    assert verdict == "works" or "came out" in outcome.detail


def test_an_application_that_ends_badly_is_told_in_its_own_words(cluster: Cluster, writer: App) -> None:
    words = "raise SystemExit('fatal: no such thing')"
    dead = replace(writer, kind="pipe", command=_writing((), words))
    outcome = run(dead, cluster, has_to_install=True, seconds=10)
    assert outcome.verdict == "fails"
    assert outcome.detail == "ended with status 1: fatal: no such thing"


def test_one_that_wants_its_topics_made_before_says_so(cluster: Cluster, writer: App) -> None:
    wants = """
from confluent_kafka.admin import AdminClient
topics = AdminClient({"bootstrap.servers": os.environ["BOOTSTRAP"]}).list_topics(timeout=10).topics
assert os.environ["SOURCE"] in topics, "no source"
"""
    outcome = run(replace(writer, command=_writing(LINES, wants)), cluster, has_to_install=True)
    assert outcome.verdict == "works after its topics are made"
    assert "no source" in outcome.detail


def test_what_brokers_refused_meanwhile_is_told_but_for_what_asking_again_mends(
    cluster: Cluster, writer: App
) -> None:
    refused = """
from confluent_kafka.admin import AdminClient, NewTopic
admin = AdminClient({"bootstrap.servers": os.environ["BOOTSTRAP"]})
for pending in admin.create_topics([NewTopic("not/a/name", 1, 1)]).values():
    print(pending.exception())
"""
    outcome = run(replace(writer, command=_writing(LINES, refused)), cluster, has_to_install=True)
    assert outcome.verdict == "works"
    (line,) = outcome.refused
    assert line.startswith("CreateTopics: INVALID_TOPIC_EXCEPTION 1 times (confluent-kafka-python ")


@pytest.mark.parametrize(
    ("here", "there", "is_ours"),
    [
        ("works", "fails", False),
        ("fails", "works", True),
        ("fails", "works after its topics are made", True),
        ("fails", "fails", False),
        ("fails", None, True),
        ("not installed", "not installed", False),
    ],
)
def test_a_failure_is_ours_where_kafka_has_none(here: Verdict, there: Verdict | None, is_ours: bool) -> None:
    outcomes = [Outcome(SPRINGTIDE, "one", here)]
    if there is not None:
        outcomes.append(Outcome(KAFKA, "one", there))
    assert failures_of_ours(outcomes) == (["one"] if is_ours else [])


def test_the_page_has_a_row_for_each_application_and_says_why() -> None:
    apps = APPLICATIONS[:2]
    page = render(
        apps,
        [
            Outcome(SPRINGTIDE, apps[0].name, "works", 3.2, refused=["Fetch: INVALID_REQUEST 1 times (x 1)"]),
            Outcome(SPRINGTIDE, apps[1].name, "fails", 60.0, "not in time"),
            Outcome(KAFKA, apps[0].name, "works", 4.0),
        ],
    )
    job = apps[0].job
    assert (
        f"| {apps[0].name} | {job} | works (3 s) | works (4 s) | Fetch: INVALID_REQUEST 1 times (x 1) |"
        in page
    )
    assert f"| {apps[1].name} | {apps[1].job} | fails (60 s) | . | - |" in page
    assert f"- {SPRINGTIDE}: 1 works, 1 fails" in page
    assert f"- {SPRINGTIDE}, {apps[1].name}: fails: not in time" in page


def test_the_documents_list_the_applications() -> None:
    page = (ROOT / "docs" / "applications.md").read_text(encoding="utf-8")
    assert render_needs(APPLICATIONS) in page, "python -m tests.interop.apps --list prints the table anew"


def test_no_two_applications_have_one_name() -> None:
    names = [app.name for app in APPLICATIONS]
    assert len(set(names)) == len(names) >= 25
