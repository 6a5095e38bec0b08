"""The applications of the table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from localcluster.java import find_java
from tests.interop.apps.app import COPY, App, Command, Place
from tests.interop.apps.installs import Both, Debian, Maven, Npm, OnPath, Pip, library_path

PROGRAMS = Path(__file__).parent / "programs"
SYSLOG_LIBRARIES = ("libestr0", "libfastjson4", "liblognorm5")
SYSLOG_NG_LIBRARIES = ("libpcre3", "libivykis0", "libnet1", "libjson-c5", "libwrap0")
PLUGINS = "usr/lib/x86_64-linux-gnu"

SPARK_JARS = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
)
"""The others are in PySpark."""


def _python(program: str, *arguments: str, **more: str) -> Callable[[Place], Command]:
    """Run one of the programs in the application's own environment."""

    def command(place: Place) -> Command:
        quiet = {"PYTHONWARNINGS": "ignore", "PYTHONPATH": "", "PYTHONUNBUFFERED": "1", **more}
        return Command([str(place.home / "bin" / "python"), str(PROGRAMS / program), *arguments], quiet)

    return command


def _node(program: str) -> Callable[[Place], Command]:
    def command(place: Place) -> Command:
        return Command(["node", str(PROGRAMS / program)], {"NODE_PATH": str(place.home / "node_modules")})

    return command


def _airflow(place: Place) -> Command:
    connection = f'{{"bootstrap.servers": "{place.bootstrap}", "group.id": "{place.group}", '
    extra = connection + '"auto.offset.reset": "earliest"}'
    started = _python("airflow_app.py")(place)
    settings = {
        "AIRFLOW_HOME": str(place.folder),
        "AIRFLOW_CONN_KAFKA_DEFAULT": f'{{"conn_type": "kafka", "extra": {extra}}}',
    }
    return Command(started.arguments, {**started.environment, **settings})


PYTHON = (
    App(
        "faust",
        "pipe",
        "an agent from topic to topic",
        Pip(("faust-streaming",)),
        _python("faust_app.py", "worker", "-l", "warn", "--without-web"),
    ),
    App(
        "faust-exactly-once",
        "pipe",
        "the same, with exactly_once",
        Pip(("faust-streaming",)),
        _python("faust_app.py", "worker", "-l", "warn", "--without-web", GUARANTEE="exactly_once"),
        exactly_once=True,
        needs="its topics made before it is started, and to read its target, too",
    ),
    App(
        "faststream-aiokafka",
        "pipe",
        "a subscriber that publishes",
        Pip(("faststream[kafka]",)),
        _python("faststream_app.py", "aiokafka"),
    ),
    App(
        "faststream-confluent",
        "pipe",
        "a subscriber that publishes",
        Pip(("faststream[confluent]",)),
        _python("faststream_app.py", "confluent"),
    ),
    App(
        "quixstreams",
        "pipe",
        "a dataframe from topic to topic",
        Pip(("quixstreams",)),
        _python("quixstreams_app.py"),
    ),
    App(
        "quixstreams-exactly-once",
        "pipe",
        "the same, with exactly-once",
        Pip(("quixstreams",)),
        _python("quixstreams_app.py", "exactly-once"),
        exactly_once=True,
    ),
    App(
        "bytewax",
        "pipe",
        "a flow from topic to topic",
        Pip(("bytewax[kafka]",)),
        _python("bytewax_app.py"),
        needs="its source made before it is started",
    ),
    App(
        "arroyo",
        "pipe",
        "a stream processor that produces",
        Pip(("sentry-arroyo",)),
        _python("arroyo_app.py"),
        needs="its source made before it is started",
    ),
    App(
        "pathway",
        "pipe",
        "a table from topic to topic",
        Pip(("pathway",)),
        _python("pathway_app.py"),
        keeps_order=False,
    ),
    App(
        "celery",
        "read",
        "tasks sent and carried out",
        Pip(("celery", "kombu[confluentkafka]")),
        _python("celery_app.py"),
    ),
    App(
        "dlt",
        "read",
        "a topic loaded into DuckDB",
        Pip(("dlt[duckdb]", "confluent-kafka")),
        _python("dlt_app.py"),
    ),
    App(
        "streamz",
        "pipe",
        "a stream from topic to topic",
        Pip(("streamz", "confluent-kafka")),
        _python("streamz_app.py"),
    ),
    App(
        "airflow",
        "read",
        "the operator that consumes a topic",
        Pip(("apache-airflow-providers-apache-kafka",)),
        _airflow,
    ),
)


def _kcat_write(place: Place) -> Command:
    given = (place.folder / "lines").read_text(encoding="utf-8")
    return Command(["kcat", "-b", place.bootstrap, "-t", place.target, "-P"], given=given)


def _kcat_read(place: Place) -> Command:
    return Command(["kcat", "-q", "-b", place.bootstrap, "-t", place.source, "-C", "-e"])


def _rsyslog(place: Place) -> Command:
    modules = place.home / PLUGINS / "rsyslog"
    brokers = ", ".join(f'"{address}"' for address in place.bootstrap.split(","))
    text = f"""\
global(workDirectory="{place.folder}")
module(load="imfile")
module(load="omkafka")
template(name="line" type="string" string="%msg%")
input(type="imfile" File="{place.folder}/lines" Tag="app")
action(type="omkafka" broker=[{brokers}] topic="{place.target}" template="line")
"""
    config = _written(place, "rsyslog.conf", text)
    command = [f"{place.home}/usr/sbin/rsyslogd", "-n", "-f", config, "-i", f"{place.folder}/pid"]
    return Command([*command, "-M", str(modules)], {"LD_LIBRARY_PATH": library_path(place.home)})


def _syslog_ng(place: Place) -> Command:
    modules = place.home / "usr/lib/syslog-ng/3.38"
    text = f"""\
@version: 3.38
@module affile
@module basicfuncs
@module kafka
source lines {{ file("{place.folder}/lines" flags(no-parse) follow-freq(1)); }};
destination topic {{
  kafka-c(bootstrap-servers("{place.bootstrap}") topic("{place.target}") message("$MSG"));
}};
log {{ source(lines); destination(topic); }};
"""
    config = _written(place, "syslog-ng.conf", text)
    files = ("-f", config, "-R", "persist", "-p", "pid", "-c", "control", f"--module-path={modules}")
    return Command(
        [f"{place.home}/usr/sbin/syslog-ng", "-F", "--no-caps", *files],
        {"LD_LIBRARY_PATH": library_path(place.home)},
    )


def _collectd(place: Place) -> Command:
    properties = f'Property "metadata.broker.list" "{place.bootstrap}"'
    text = f"""\
BaseDir "{place.folder}"
PIDFile "{place.folder}/pid"
PluginDir "{place.home}/usr/lib/collectd"
TypesDB "{place.home}/usr/share/collectd/types.db"
Interval 1
LoadPlugin load
LoadPlugin write_kafka
<Plugin write_kafka>
  {properties}
  <Topic "{place.target}">
    Format JSON
  </Topic>
</Plugin>
"""
    config = _written(place, "collectd.conf", text)
    return Command(
        [f"{place.home}/usr/sbin/collectd", "-f", "-C", config],
        {"LD_LIBRARY_PATH": library_path(place.home)},
    )


def _holds_loads(values: Sequence[str]) -> bool:
    return len(values) >= 3 and all('"plugin":"load"' in value for value in values)


def _written(place: Place, name: str, text: str) -> str:
    path = place.folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


DEBIAN = (
    App("kcat-write", "write", "lines from a pipe to a topic", OnPath("kcat", "kcat"), _kcat_write),
    App("kcat-read", "read", "a topic to its end", OnPath("kcat", "kcat"), _kcat_read),
    App(
        "rsyslog",
        "write",
        "lines of a file by omkafka",
        Debian(("rsyslog", "rsyslog-kafka"), SYSLOG_LIBRARIES),
        _rsyslog,
    ),
    App(
        "syslog-ng",
        "write",
        "lines of a file by kafka-c()",
        Debian(("syslog-ng-core", "syslog-ng-mod-rdkafka"), SYSLOG_NG_LIBRARIES),
        _syslog_ng,
    ),
    App(
        "collectd",
        "write",
        "the host's load by write_kafka",
        Debian(("collectd-core",)),
        _collectd,
        contents=_holds_loads,
    ),
)

NODE = (
    App("kafkajs", "pipe", "a consumer that produces", Npm(("kafkajs@2.2.4",)), _node("kafkajs_app.js")),
    App(
        "platformatic",
        "pipe",
        "a stream that produces",
        Npm(("@platformatic/kafka",)),
        _node("platformatic_app.js"),
        needs="its topics made before it is started: `autocreateTopics` is off",
    ),
    App(
        "nestjs",
        "pipe",
        "a microservice that emits",
        Npm(
            (
                *("@nestjs/common@10", "@nestjs/core@10", "@nestjs/microservices@10"),
                *("kafkajs@2.2.4", "reflect-metadata@0.2", "rxjs@7"),
            )
        ),
        _node("nestjs_app.js"),
    ),
    App(
        "moleculer",
        "read",
        "a node that calls another",
        Npm(("moleculer@0.15", "@platformatic/kafka")),
        _node("moleculer_app.js"),
    ),
)


def _java(program: str, *arguments: str) -> Callable[[Place], Command]:
    def command(place: Place) -> Command:
        start = [str(find_java().executable), "-XX:TieredStopAtLevel=1", "-cp", f"{place.home}/libs/*"]
        return Command([*start, str(PROGRAMS / program), *arguments])

    return command


JAVA = (
    App(
        "spring",
        "pipe",
        "a listener that sends",
        Maven(
            ("org.springframework.boot:spring-boot-starter-kafka",),
            ("org.springframework.boot:spring-boot-dependencies:4.0.7",),
        ),
        _java("SpringApp.java"),
    ),
    App(
        "camel",
        "pipe",
        "a route from topic to topic",
        Maven(
            (
                *("org.apache.camel:camel-main:4.22.0", "org.apache.camel:camel-kafka:4.22.0"),
                "org.slf4j:slf4j-simple:2.0.20",
            )
        ),
        _java("CamelApp.java"),
    ),
    App(
        "vertx",
        "pipe",
        "a consumer that writes",
        Maven(
            ("io.vertx:vertx-kafka-client", "org.slf4j:slf4j-simple:2.0.20"),
            ("io.vertx:vertx-stack-depchain:5.0.7",),
        ),
        _java("VertxApp.java"),
    ),
)

FILES = "org.apache.kafka.connect.file.FileStream"


def _connect(connector: str) -> Callable[[Place], Command]:
    """Run the worker of Kafka's quick start, with one of its file connectors."""

    def command(place: Place) -> Command:
        text = "org.apache.kafka.connect.storage.StringConverter"
        worker = {
            "bootstrap.servers": place.bootstrap,
            "key.converter": text,
            "value.converter": text,
            "offset.storage.file.filename": f"{place.folder}/offsets",
            "listeners": "http://127.0.0.1:0",
        }
        task = {"name": place.group, "connector.class": f"{FILES}{connector}Connector", "tasks.max": "1"}
        about = {"Source": {"file": f"{place.folder}/lines", "topic": place.target}}
        task |= about.get(connector, {"topics": place.source})
        files = [
            _written(place, name, "".join(f"{key}={value}\n" for key, value in settings.items()))
            for name, settings in (("worker.properties", worker), ("connector.properties", task))
        ]
        start = [str(find_java().executable), "-XX:TieredStopAtLevel=1", "-cp", f"{place.home}/libs/*"]
        return Command([*start, "org.apache.kafka.connect.cli.ConnectStandalone", *files])

    return command


def _connect_exactly_once(place: Place) -> Command:
    start = [str(find_java().executable), "-XX:TieredStopAtLevel=1", "-cp", f"{place.home}/libs/*"]
    return Command([sys.executable, str(PROGRAMS / "connect_app.py"), *start])


def _mirror(place: Place) -> Command:
    """Run the driver of connect-mirror-maker.sh, from the cluster to itself under another name."""
    settings = {
        "clusters": f"{COPY}, here",
        f"{COPY}.bootstrap.servers": place.bootstrap,
        "here.bootstrap.servers": place.bootstrap,
        f"{COPY}->here.enabled": "true",
        f"{COPY}->here.topics": place.source,
    }
    text = "".join(f"{key} = {value}\n" for key, value in settings.items())
    start = [str(find_java().executable), "-XX:TieredStopAtLevel=1", "-cp", f"{place.home}/libs/*"]
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    return Command([*start, main, _written(place, "mm2.properties", text)])


STREAMS = Maven(("org.apache.kafka:kafka-streams:4.4.0", "org.slf4j:slf4j-simple:1.7.36"))
CONNECT = Maven(
    (
        *("org.apache.kafka:connect-runtime:4.3.1", "org.apache.kafka:connect-file:4.3.1"),
        "org.slf4j:slf4j-simple:1.7.36",
    )
)
OF_KAFKA = (
    App("streams", "pipe", "a topology from topic to topic", STREAMS, _java("StreamsApp.java")),
    App(
        "streams-exactly-once",
        "pipe",
        "a join with a count, with exactly_once_v2",
        STREAMS,
        _java("StreamsApp.java", "exactly_once_v2"),
        exactly_once=True,
    ),
    App(
        "mirrormaker",
        "pipe",
        "a topic copied to another",
        Maven(("org.apache.kafka:connect-mirror:4.3.1", "org.slf4j:slf4j-simple:1.7.36")),
        _mirror,
        copies=True,
    ),
    App("connect-source", "write", "lines of a file to a topic", CONNECT, _connect("Source")),
    App(
        "connect-source-exactly-once",
        "write",
        "the same, distributed, with an exactly-once source",
        CONNECT,
        _connect_exactly_once,
        exactly_once=True,
    ),
    App("connect-sink", "read", "a topic to standard output", CONNECT, _connect("Sink")),
)


def _spark(place: Place) -> Command:
    settings = {"JARS": str(place.home / "libs"), "PYTHONWARNINGS": "ignore"}
    return Command([sys.executable, str(PROGRAMS / "spark_app.py")], settings)


SPARK = App(
    "spark",
    "pipe",
    "a stream from topic to topic",
    Maven(("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",), only=SPARK_JARS),
    _spark,
)


def _flink(place: Place) -> Command:
    return _python("flink_app.py", JARS=str(place.home / "libs"))(place)


FLINK = App(
    "flink-exactly-once",
    "pipe",
    "a PyFlink job with the exactly-once sink",
    Both(Pip(("apache-flink==2.2.1",)), Maven(("org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",))),
    _flink,
    exactly_once=True,
    needs="checkpoints, and a `transaction.timeout.ms` that the cluster allows: its own is an hour",
)

APPLICATIONS = (*PYTHON, *DEBIAN, *NODE, *JAVA, *OF_KAFKA, SPARK, FLINK)
"""All, installed or not."""
