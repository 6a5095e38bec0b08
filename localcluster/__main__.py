"""`localcluster up | demo`: the quick start's command line."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from localcluster.access import ALICE, OWN
from localcluster.cluster import CANNOT_RUN, DEFAULT_CLUSTER, FirstPorts, LocalCluster, NodeProcess
from localcluster.ports import PortTaken
from localcluster.processes import SupervisedProcess, exit_on_sigterm
from localcluster.rest import RestFailed
from springtide.log_lines import LOG_FORMATS

EXIT_FAILED = 1
EXIT_PROMISE_BROKEN = 2
WATCH_SECONDS = 0.5

COORDINATORS = 2
"""Each takes over from the other."""
TOPIC = "orders"
PID_FILE = "pid"
"""Of each broker, in its folder: for the person who stops it, we never read it."""

KCAT_LOGIN = "-X sasl.mechanism=PLAIN"
"""What each release of kcat can do, over TLS: older ones fail at SCRAM."""

HOW_TO_BEGIN = """
The parts are up, and nothing has been created. Ctrl-C stops them.

  REST and Swagger UI  {controller}/docs
  brokers              {brokers}
  coordinators         {coordinators}
  logs                 {logs}

They wait for the cluster '{cluster}'. One is stopped with: kill $(cat {directory}/broker-1/{pid_file})
"""

HOW_TO_ASK = """
The controller speaks TLS and wants a token:

  curl --cacert {ca} -H @{header} {controller}/clusters
"""

HOW_TO_SECURE = """
All of it speaks TLS, with a CA of its own; clients log in, and the controller wants a token. Its users may:

  alice       writes and reads the topics {own}*, in groups {own}*
  viewer      sees topics, groups and settings, and reads no record
  operator    everything: a super user

Their passwords are in files that only you can read, for kcat and librdkafka, and for Java:

  {clients}/alice.conf  viewer.conf  operator.conf
  {clients}/alice.properties  viewer.properties  operator.properties

Ask why a user may not do something:

  springtide acls explain User:viewer read topic:{topic} --url {controller} \\
      --ca-file {ca} --token-file {token}

The controller's page asks for the token in that file, and the browser whether you trust the certificate.
"""

HOW_TO = """
Springtide is up. Ctrl-C stops it.

  REST and Swagger UI  {controller}/docs
  Kafka brokers        {bootstrap}
  coordinators         {coordinators} (clients find them by themselves)
  ZooKeeper            {zookeeper}
  logs                 {logs}

Produce and consume with kcat:

  echo 'hello' | {kcat} -P -t {topic} -X acks=all
  {kcat} -C -t {topic} -o beginning -e

The same from Python ({python}):

  from confluent_kafka import Consumer, Producer

  client = {client}
  producer = Producer(client | {{"acks": "all", "enable.idempotence": True}})
  producer.produce("{topic}", key=b"42", value=b"hello")
  producer.flush()

  consumer = Consumer(client | {{"group.id": "{topic}-reader", "auto.offset.reset": "earliest"}})
  consumer.subscribe(["{topic}"])
  while (message := consumer.poll(10)) is not None:
      print(message.partition(), message.offset(), message.key(), message.value())
  consumer.close()  # it has committed where it is: run it again, and only what is new is printed

Ask the controller:

  {curl} {controller}/clusters/{cluster}/topics/{topic}/partitions
  {curl} {controller}/audit
  {curl} {controller}/topics -H 'content-type: application/json' \\
       -d '{{"name": "payments", "cluster": "{cluster}", "partitions": 6, "replication_factor": {copies}}}'
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="localcluster", description="A Springtide cluster on this machine.")
    commands = parser.add_subparsers(dest="command", required=True)

    up = commands.add_parser("up", help="start a cluster and leave it running until Ctrl-C")
    up.add_argument("--brokers", type=int, default=3, help="how many brokers (default 3)")
    up.add_argument(
        "--workers", type=int, default=1, help="worker processes of each broker, one a core (default 1)"
    )
    up.add_argument("--controllers", type=int, default=1, help="how many controllers (default 1)")
    up.add_argument("--zookeepers", type=int, default=1, help="how many ZooKeeper servers (default 1)")
    up.add_argument(
        "--coordinators",
        type=int,
        default=COORDINATORS,
        help=f"how many coordinators (default {COORDINATORS})",
    )
    up.add_argument(
        "--port-base",
        type=int,
        help="use this port and those after it, which must be free (default: 2181, 8080 and 9092 where free)",
    )
    up.add_argument(
        "--directory", type=Path, help="keep the data here (default: a folder that is removed at the end)"
    )
    up.add_argument(
        "--empty",
        action="store_true",
        help="create nothing: brokers and coordinators wait for POST /clusters",
    )
    up.add_argument(
        "--config", action="append", default=[], metavar="KEY=VALUE", help="a setting for every broker"
    )
    up.add_argument(
        "--secure",
        action="store_true",
        help="TLS between all of them and to clients, with certificates made for this machine; users, and "
        "ACLs that say what they may do",
    )
    up.add_argument(
        "--log-format", default="text", choices=LOG_FORMATS, help="of all but ZooKeeper (default text)"
    )

    demo = commands.add_parser("demo", help="kill a leader under load and count what is left")
    demo.add_argument("--report", type=Path, default=Path("build/demo.json"), help="where the figures go")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; exit with 0 when all went well, 1 on failure, 2 when the demo lost or duplicated
    something."""
    options = build_parser().parse_args(arguments)
    exit_on_sigterm()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background jobs ignore it.
    try:
        if options.command == "up":
            run_up(options)
        else:
            sys.exit(run_demo_command(options.report))
    except KeyboardInterrupt:
        sys.exit(0)
    except (*CANNOT_RUN, PortTaken) as failure:
        sys.stderr.write(f"localcluster: {failure}\n")
        sys.exit(EXIT_FAILED)


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Narrator:
    """Prints progress with the seconds since the start, so that a reader sees where the time goes."""

    def __init__(self) -> None:
        self._started_at = time.monotonic()

    def __call__(self, line: str) -> None:
        tell(f"[{time.monotonic() - self._started_at:5.1f} s] {line}")


def run_up(options: argparse.Namespace) -> None:
    configs: dict[str, str] = {}
    for setting in options.config:
        key, equals, value = setting.partition("=")
        if not equals:
            raise SystemExit(f"localcluster: --config takes KEY=VALUE, not {setting!r}")
        configs[key] = value
    first_ports = FirstPorts() if options.port_base is None else FirstPorts.from_base(options.port_base)
    narrate = Narrator()
    cluster = LocalCluster(
        options.directory,
        brokers=options.brokers,
        workers=options.workers,
        controllers=options.controllers,
        zookeepers=options.zookeepers,
        coordinators=options.coordinators,
        broker_config=configs,
        log_format=options.log_format,
        first_ports=first_ports,
        creates_cluster=not options.empty,
        on_progress=narrate,
        is_secure=options.secure,
        has_users=options.secure,
    )
    with cluster:
        try:
            _write_pids(cluster)
            if options.empty:
                _tell_how_to_begin(cluster)
                _tell_how_to_ask(cluster)
            else:
                _form_and_tell_how_to_use(cluster)
            _serve_until_interrupted(cluster)
        except KeyboardInterrupt:
            narrate("stopping")
    narrate("stopped; nothing is left running")


def _write_pids(cluster: LocalCluster) -> None:
    for broker in cluster.brokers.values():
        (broker.data_directory.parent / PID_FILE).write_text(f"{broker.process.pid}\n", encoding="ascii")


def _tell_how_to_begin(cluster: LocalCluster) -> None:
    tell(
        HOW_TO_BEGIN.format(
            controller=cluster.controller_urls[0],
            cluster=cluster.name,
            brokers=_registered(cluster.brokers),
            coordinators=_registered(cluster.coordinators),
            logs=cluster.log_directory,
            directory=cluster.directory,
            pid_file=PID_FILE,
        )
    )


def _tell_how_to_ask(cluster: LocalCluster) -> None:
    if cluster.tls is not None and cluster.tokens is not None:
        ask = {"ca": cluster.tls.ca, "header": cluster.tokens.header}
        tell(HOW_TO_ASK.format(**ask, controller=cluster.controller_urls[0]))


def _listed(nodes: Mapping[int, NodeProcess]) -> str:
    ports = {node_id: node.sasl_port or node.port for node_id, node in nodes.items()}
    return (
        ", ".join(f"{node_id} at {nodes[node_id].address}:{port}" for node_id, port in ports.items())
        or "none"
    )


def _registered(nodes: Mapping[int, NodeProcess]) -> str:
    return ", ".join(f"{node_id} at {node.registered}" for node_id, node in nodes.items()) or "none"


def _form_and_tell_how_to_use(cluster: LocalCluster) -> None:
    cluster.form()
    cluster.make_topics_on_first_use()
    replication_factor = min(3, len(cluster.brokers))
    try:
        cluster.create_topic(TOPIC, partitions=3, replication_factor=replication_factor)
    except RestFailed as refused:
        if refused.status != 409:
            raise  # 409: the folder was used before and has the topic.
    tell(how_to_use(cluster, copies=replication_factor))


def how_to_use(cluster: LocalCluster, *, copies: int) -> str:
    """Return what a person needs to use it: no secrets, but the files that have them."""
    bootstrap = cluster.bootstrap_servers
    kcat, curl = f"kcat -b {bootstrap}", "curl -s"
    client = f'{{"bootstrap.servers": "{bootstrap}"}}'
    controller, begin = cluster.controller_urls[0], ""
    if cluster.tls is not None and cluster.tokens is not None:
        bootstrap, file = cluster.sasl_bootstrap_servers, cluster.clients[ALICE].librdkafka
        kcat, curl = (
            f"kcat -F {file} {KCAT_LOGIN}",
            f"curl -s --cacert {cluster.tls.ca} -H @{cluster.tokens.header}",
        )
        client = f'dict(line.strip().split("=", 1) for line in open("{file}"))'
        begin = HOW_TO_SECURE.format(
            own=OWN,
            clients=file.parent,
            topic=TOPIC,
            controller=controller,
            ca=cluster.tls.ca,
            token=cluster.tokens.operator,
        )
    return begin + HOW_TO.format(
        kcat=kcat,
        curl=curl,
        client=client,
        controller=controller,
        bootstrap=bootstrap,
        coordinators=_listed(cluster.coordinators),
        zookeeper=cluster.zookeeper.connection_string,
        logs=cluster.log_directory,
        cluster=DEFAULT_CLUSTER,
        topic=TOPIC,
        copies=copies,
        python=sys.executable,
    )


def _serve_until_interrupted(cluster: LocalCluster) -> None:
    while True:
        for process in cluster.excuse_ended():
            tell(ending_of(process))
        threading.Event().wait(WATCH_SECONDS)


def ending_of(process: SupervisedProcess) -> str:
    """Return what the user is told of a process that has ended, by hand or by a fault."""
    code = process.exit_code or 0
    if code < 0:
        how = f"was killed ({signal.Signals(-code).name})."
    else:
        how = f"failed with {code}.{process.last_words()}" if code else "was stopped."
    return f"{process.name} {how}\nThe others continue. Start it again with:\n\n  {process.how_to_start()}\n"


def run_demo_command(report_path: Path) -> int:
    # Imported here: `up` works without the confluent-kafka client that the demo's load needs.
    try:
        from localcluster.demo import print_report, run_demo, write_report  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if missing.name != "confluent_kafka":
            raise
        sys.stderr.write(
            "localcluster: the demo's Kafka client is not installed in this environment: "
            "pip install 'springtide[pipeline,clients]'\n"
        )
        return EXIT_FAILED

    narrate = Narrator()
    with LocalCluster(coordinators=COORDINATORS, on_progress=narrate) as cluster:
        report = run_demo(cluster, narrate)
        print_report(report, tell)
        write_report(report, report_path)
        narrate("stopping")
    narrate(f"stopped; figures are in {report_path}")
    if report.has_passed:
        return 0
    tell("FAILED: the promise did not hold")
    return EXIT_PROMISE_BROKEN


if __name__ == "__main__":
    main()
