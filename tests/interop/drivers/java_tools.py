"""The command-line tools of Apache Kafka: `python -m tests.interop.drivers.java_tools KAFKA_HOME`.

They are started by their classes, not by the scripts of bin/, so that the jars alone are enough.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.kafka import find_version
from localcluster.java import find_java
from tests.interop.drivers.answer import serve
from tests.interop.drivers.command import lines_to_write, records_of, run

Asked = dict[str, Any]
TOOLS = "org.apache.kafka.tools"
CONFIGS = "kafka.admin.ConfigCommand"
QUIET = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


class JavaTools:
    """One method a call of rows.py, one JVM each."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def version(self, asked: Asked) -> str:
        return find_version(self._home)

    def connect(self, asked: Asked) -> int:
        printed = self._run(asked, f"{TOOLS}.BrokerApiVersionsCommand")
        return len(re.findall(r"\(id: \d+ .*\) -> \(", printed))

    def list_topics(self, asked: Asked) -> list[str]:
        return self._run(asked, f"{TOOLS}.TopicCommand", "--list").split()

    def create(self, asked: Asked) -> None:
        size = ["--partitions", str(asked["partitions"])]
        size += ["--replication-factor", str(asked["replication_factor"])]
        self._run(asked, f"{TOOLS}.TopicCommand", "--create", "--topic", asked["topic"], *size)

    def delete(self, asked: Asked) -> None:
        self._run(asked, f"{TOOLS}.TopicCommand", "--delete", "--topic", asked["topic"])

    def describe_configs(self, asked: Asked) -> str:
        which = ["--describe", "--all", "--entity-type", "topics", "--entity-name", asked["topic"]]
        printed = self._run(asked, CONFIGS, *which)
        found = re.search(rf"^\s*{re.escape(asked['setting'])}=(\S+)", printed, re.MULTILINE)
        return found[1] if found else printed

    def alter_configs(self, asked: Asked) -> None:
        which = ["--alter", "--entity-type", "topics", "--entity-name", asked["topic"]]
        self._run(asked, CONFIGS, *which, "--add-config", f"{asked['setting']}={asked['value']}")

    def produce(self, asked: Asked) -> None:
        settings = {
            "acks": "all",
            "enable.idempotence": str(asked["idempotent"]).lower(),
            "compression.type": asked["codec"],
        }
        flags = [part for item in settings.items() for part in ("--producer-property", "=".join(item))]
        flags += ["--reader-property", "parse.key=true"]
        given = lines_to_write(asked["count"])
        self._run(asked, f"{TOOLS}.ConsoleProducer", "--topic", asked["topic"], *flags, given=given)

    def fetch(self, asked: Asked) -> list[list[str]]:
        where = ["--topic", asked["topic"], "--partition", "0", "--offset", "earliest"]
        until = ["--max-messages", str(asked["count"]), "--timeout-ms", "30000"]
        shape = ["--formatter-property", "print.key=true"]
        return records_of(self._run(asked, f"{TOOLS}.consumer.ConsoleConsumer", *where, *until, *shape))

    def offset_by_time(self, asked: Asked) -> int:
        which = ["--topic", asked["topic"], "--time", str(asked["timestamp_ms"])]
        return int(self._run(asked, f"{TOOLS}.GetOffsetShell", *which).split(":")[-1])

    def delete_records(self, asked: Asked) -> None:
        before = {"topic": asked["topic"], "partition": 0, "offset": asked["offset"]}
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
            json.dump({"version": 1, "partitions": [before]}, file)
            file.flush()
            self._run(asked, f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", file.name)

    def _run(self, asked: Asked, main_class: str, *arguments: str, given: str = "") -> str:
        java = [str(find_java().executable), *QUIET, "-cp", f"{self._home}/libs/*"]
        command = [*java, main_class, "--bootstrap-server", asked["bootstrap"], *arguments]
        return run(command, given=given)


if __name__ == "__main__":
    serve(JavaTools(Path(sys.argv[1])))
