"""The file of `--command-config`, and how jobs use it."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pytest

from pipeline.client.security import PasswordLogin, TlsOptions
from pipeline.jobs.arguments import source_options
from pipeline.jobs.command_config import parse_properties, read_command_config
from pipeline.jobs.context import Context
from pipeline.replay.log import parse_log
from springtide.cli.call import UsageError
from springtide.cli.console import Console
from springtide.security.sasl.exchange import Mechanism

FILE = """\
# as kafka-topics.sh takes it
security.protocol = SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="alice" \\
    password="a=b;c";

ssl.truststore.location=/etc/ca.pem
client.id=nightly
"""


def context(file: Path | None) -> Context:
    options = argparse.Namespace(
        command_config=None if file is None else str(file),
        bootstrap_server="b:1",
        job_name="land",
        remote=None,
    )
    out = io.StringIO()
    return Context(options, Console(out, out, name="pipeline", is_json=False), {})


def test_a_job_reaches_brokers_as_its_file_says(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(FILE)
    job = context(file)
    config = job.client_config
    assert config.security.tls == TlsOptions("/etc/ca.pem")
    assert config.security.login == PasswordLogin(Mechanism.SCRAM_SHA_512, "alice", "a=b;c")
    assert (config.client_id, config.bootstrap) == ("nightly", (("b", 1),))
    assert job.security == config.security
    asked = argparse.Namespace(
        topics=["t"], starting_offsets=None, starting_timestamp=None, ending_offsets=None
    )
    assert source_options(asked, job).client == config


def test_without_a_file_a_job_speaks_in_the_clear() -> None:
    job = context(None)
    assert (job.client_config.security.tls, job.client_config.client_id) == (None, "pipeline-land")


def test_the_cluster_that_is_copied_from_has_a_file_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "source.properties"
    file.write_text("security.protocol=SSL")
    target = context(None)
    log = parse_log(
        "kafka://old1:9092,old2:9092/orders", lambda servers: target.client_of(servers, str(file))
    )
    assert log.client.bootstrap == (("old1", 9092), ("old2", 9092))
    assert (log.client.security.tls, target.client_config.security.tls) == (TlsOptions(), None)


def test_lines_are_pairs_and_the_last_of_a_key_counts() -> None:
    text = "! comment\n a = 1\nb=\na=2=3\\4\nc=x\\\n  y\n"
    assert parse_properties(text) == {"a": "2=3\\4", "b": "", "c": "xy"}


def test_a_file_that_is_none_is_told_without_what_is_in_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    with pytest.raises(UsageError, match=r"can't read .*FileNotFoundError"):
        read_command_config(file)
    file.write_text("a=1\ns3cret\n")
    with pytest.raises(UsageError, match="line 2 is not KEY=VALUE") as caught:
        read_command_config(file)
    assert "s3cret" not in str(caught.value)
