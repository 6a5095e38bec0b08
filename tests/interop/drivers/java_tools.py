"""The command-line tools of Apache Kafka: `python -m tests.interop.drivers.java_tools KAFKA_HOME`.

They are started by their classes, not by the scripts of bin/, so that the jars alone are enough.
"""

from __future__ import annotations

import json
import re
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.kafka import find_version
from localcluster.java import find_java
from tests.interop.drivers.answer import NotHere, serve
from tests.interop.drivers.command import lines_to_write, records_of, run
from tests.interop.drivers.connect import copy_lines
from tests.interop.drivers.login import ALLOWED_URLS, OAUTHBEARER, java_settings, token_url
from tests.interop.drivers.members import Prints, return_static, share

Asked = dict[str, Any]
TOOLS = "org.apache.kafka.tools"
ACLS = f"{TOOLS}.AclCommand"
MECHANISM = "SCRAM-SHA-256"
TRANSACTIONS = f"{TOOLS}.TransactionsCommand"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
QUIET = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


class JavaTools:
    """One method a call of rows.py, one JVM each."""

    def __init__(self, home: Path) -> None:
        self._home = home
        major, minor = find_version(home).split(".")[:2]
        is_moved = (int(major), int(minor)) >= (4, 4)
        self._configs = f"{TOOLS}.ConfigCommand" if is_moved else "kafka.admin.ConfigCommand"

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
        printed = self._run(asked, self._configs, *which)
        found = re.search(rf"^\s*{re.escape(asked['setting'])}=(\S+)", printed, re.MULTILINE)
        return found[1] if found else printed

    def alter_configs(self, asked: Asked) -> None:
        which = ["--alter", "--entity-type", "topics", "--entity-name", asked["topic"]]
        self._run(asked, self._configs, *which, "--add-config", f"{asked['setting']}={asked['value']}")

    def produce(self, asked: Asked) -> None:
        settings = {
            "acks": "all",
            "enable.idempotence": str(asked["idempotent"]).lower(),
            "compression.type": asked["codec"],
            "retry.backoff.max.ms": "100",  # each record that is refused at once waits for metadata
        }
        flags = [part for item in settings.items() for part in ("--producer-property", "=".join(item))]
        flags += ["--reader-property", "parse.key=true"]
        given = lines_to_write(asked["count"])
        command = [f"{TOOLS}.ConsoleProducer", "--topic", asked["topic"], *flags]
        self._run(asked, *command, given=given, failure="Exception")

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

    def group_share(self, asked: Asked) -> dict[str, Any]:
        return share(lambda instance: self._take_part(asked, instance))

    def group_static(self, asked: Asked) -> dict[str, Any]:
        return return_static(lambda instance: self._take_part(asked, instance))

    def consumer_share(self, asked: Asked) -> dict[str, Any]:
        return self.group_share(asked | {"protocol": "CONSUMER"})

    def consumer_static(self, asked: Asked) -> dict[str, Any]:
        return self.group_static(asked | {"protocol": "CONSUMER"})

    def _take_part(self, asked: Asked, instance: str) -> Prints:
        """Return a kafka-verifiable-consumer, which prints what happens as JSON, a line each."""
        flags = ["--group-id", asked["group"], "--topic", asked["topic"]]
        flags += ["--group-protocol", asked["protocol"]] if "protocol" in asked else []
        flags += ["--group-instance-id", instance] if instance else []
        command = self._command(asked, f"{TOOLS}.VerifiableConsumer", *flags)
        return Prints(command, _read_event, end=signal.SIGTERM)

    def group_resume(self, asked: Asked) -> list[list[str]]:
        self._read_as_group(asked, asked["offset"])
        return self._read_as_group(asked, asked["count"] - asked["offset"])

    def _read_as_group(self, asked: Asked, count: int) -> list[list[str]]:
        """It commits what it printed when it ends."""
        what = ["--topic", asked["topic"], "--group", asked["group"], "--from-beginning"]
        until = ["--max-messages", str(count), "--timeout-ms", "30000"]
        shape = ["--formatter-property", "print.key=true"]
        return records_of(self._run(asked, f"{TOOLS}.consumer.ConsoleConsumer", *what, *until, *shape))

    def count_words(self, asked: Asked) -> dict[str, Any]:
        """Run a program of Kafka Streams in a JVM of its own, as all is here; and again, as another machine
        does, which has none of its files."""
        self._need("kafka-streams")
        program = str(Path(__file__).with_name("WordCount.java"))
        what = [asked["bootstrap"], asked["group"], asked["topic"], str(asked["count"])]
        told = {}
        for name in ("counted", "restored"):
            with tempfile.TemporaryDirectory() as directory:
                told[name] = json.loads(run([*self._java(), program, *what, directory]))
        return told

    def copy_lines(self, asked: Asked) -> list[str]:
        self._need("connect-runtime", "connect-file")
        with tempfile.TemporaryDirectory() as directory:
            return copy_lines(
                self._java(),
                bootstrap=asked["bootstrap"],
                group=asked["group"],
                topic=asked["topic"],
                lines=[f"line {number}" for number in range(asked["count"])],
                directory=Path(directory),
            )

    def _need(self, *artifacts: str) -> None:
        """Raise NotHere without their jars in Kafka's own version: connectors of another one do not load."""
        jars = [self._home / "libs" / f"{one}-{find_version(self._home)}.jar" for one in artifacts]
        if absent := [jar.name for jar in jars if not jar.is_file()]:
            raise NotHere(f"{self._home}/libs has no {' and no '.join(absent)}")

    def list_transactions(self, asked: Asked) -> list[str]:
        return [
            line.split()[0] for line in self._run(asked, TRANSACTIONS, "list").splitlines() if line.split()
        ]

    def describe_transaction(self, asked: Asked) -> dict[str, Any]:
        printed = self._run(asked, TRANSACTIONS, "describe", "--transactional-id", asked["group"])
        state = re.search(r"\b(Ongoing)\b", printed)
        partitions = re.findall(
            rf"{re.escape(asked['topic'])}-(\d+)\b", printed.replace(asked["group"] + " ", "")
        )
        return {"state": state[1] if state else printed, "partitions": [int(one) for one in partitions]}

    def list_groups(self, asked: Asked) -> list[str]:
        return self._run(asked, GROUPS, "--list").split()

    def describe_group(self, asked: Asked) -> dict[str, Any]:
        which = ["--describe", "--group", asked["group"], "--state"]
        found = re.search(r" (\w+) +(\d+)\s*$", self._run(asked, GROUPS, *which))
        return {"state": found[1], "members": int(found[2])} if found else {}

    def group_offsets(self, asked: Asked) -> int:
        printed = self._run(asked, GROUPS, "--describe", "--group", asked["group"])
        found = re.search(rf"{re.escape(asked['topic'])}\s+0\s+(\d+)", printed)
        return int(found[1]) if found else -1

    def reset_group(self, asked: Asked) -> None:
        which = ["--reset-offsets", "--group", asked["group"], "--topic", f"{asked['topic']}:0"]
        self._run(asked, GROUPS, *which, "--to-offset", str(asked["offset"]), "--execute")

    def delete_group_offsets(self, asked: Asked) -> None:
        which = ["--delete-offsets", "--group", asked["group"], "--topic", asked["topic"]]
        self._run(asked, GROUPS, *which)

    def delete_group(self, asked: Asked) -> None:
        self._run(asked, GROUPS, "--delete", "--group", asked["group"])

    def set_password(self, asked: Asked) -> None:
        secret = f"[iterations={asked['iterations']},password={asked['password']}]"
        self._alter_user(asked, "--add-config", f"{MECHANISM}={secret}")

    def describe_user(self, asked: Asked) -> dict[str, int]:
        found = re.findall(r"(SCRAM-SHA-\d+)=iterations=(\d+)", self._describe_user(asked))
        return {mechanism: int(iterations) for mechanism, iterations in found}

    def delete_password(self, asked: Asked) -> None:
        self._alter_user(asked, "--delete-config", MECHANISM)

    def set_quota(self, asked: Asked) -> None:
        self._alter_user(asked, "--add-config", f"{asked['quota']}={asked['rate']}")

    def describe_quotas(self, asked: Asked) -> dict[str, float]:
        found = re.findall(rf"({asked['quota']})=([\d.E+]+)", self._describe_user(asked))
        return {name: float(rate) for name, rate in found}

    def _alter_user(self, asked: Asked, *change: str) -> None:
        which = ["--alter", "--entity-type", "users", "--entity-name", asked["user"]]
        self._run(asked, self._configs, *which, *change)

    def _describe_user(self, asked: Asked) -> str:
        which = ["--describe", "--entity-type", "users", "--entity-name", asked["user"]]
        return self._run(asked, self._configs, *which)

    def create_acl(self, asked: Asked) -> None:
        what = ["--allow-principal", asked["principal"], "--operation", "Read"]
        self._run(asked, ACLS, "--add", "--topic", asked["topic"], *what)

    def describe_acls(self, asked: Asked) -> list[list[str]]:
        printed = self._run(asked, ACLS, "--list", "--topic", asked["topic"])
        found = re.findall(r"principal=([^,]+), host=\*, operation=(\w+), permissionType=ALLOW", printed)
        return [[*one] for one in found]

    def delete_acl(self, asked: Asked) -> None:
        what = ["--allow-principal", asked["principal"], "--operation", "Read", "--force"]
        self._run(asked, ACLS, "--remove", "--topic", asked["topic"], *what)

    def _run(self, asked: Asked, main_class: str, *arguments: str, given: str = "", failure: str = "") -> str:
        with tempfile.NamedTemporaryFile("w", suffix=".properties", encoding="utf-8") as file:
            file.writelines(f"{key}={value}\n" for key, value in java_settings(asked).items())
            file.flush()
            get_in = ("--command-config", file.name) if asked["login"] else ()
            command = self._command(asked, main_class, *get_in, *arguments)
            return run(command, given=given, failure=failure)

    def _command(self, asked: Asked, main_class: str, *arguments: str) -> list[str]:
        return [*self._java(*_flags(asked)), main_class, "--bootstrap-server", asked["bootstrap"], *arguments]

    def _java(self, *flags: str) -> list[str]:
        return [str(find_java().executable), *QUIET, *flags, "-cp", f"{self._home}/libs/*"]


def _flags(asked: Asked) -> list[str]:
    login = asked["login"]
    is_token = login and login["mechanism"] == OAUTHBEARER
    return [f"-D{ALLOWED_URLS}={token_url(asked)}"] if is_token else []


def _read_event(line: str, member: Prints) -> None:
    event = json.loads(line) if line.startswith("{") else {}
    match event.get("name"):
        case "partitions_assigned":
            member.gained([one["partition"] for one in event["partitions"]])
        case "partitions_revoked":
            member.revoked([one["partition"] for one in event["partitions"]])


if __name__ == "__main__":
    serve(JavaTools(Path(sys.argv[1])))
