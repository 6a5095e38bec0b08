"""What a job is given: Spark, brokers, controllers and a console, each made when it is first used."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import httpx

from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.jobs.console import PROG, Console
from pipeline.jobs.job import UsageError
from pipeline.jobs.session import make_session
from springtide.cli.client import Controllers
from springtide.cli.settings import load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Context:
    """environment: for what options leave open. session: used instead of a new one, and kept."""

    def __init__(
        self,
        options: argparse.Namespace,
        console: Console,
        environment: Mapping[str, str],
        *,
        session: SparkSession | None = None,
    ) -> None:
        self._options = options
        self._console = console
        self._environment = environment
        self._given_session = session
        self._made_session: SparkSession | None = None

    @property
    def is_json(self) -> bool:
        return self._console.is_json

    def note(self, line: str) -> None:
        """A line for people, on standard error."""
        self._console.note(line)

    def progress(self, done: int, total: int, words: str) -> None:
        """total 0: not known yet."""
        self._console.progress(done, total, words)

    @property
    def spark(self) -> SparkSession:
        """Raises JobError or UsageError."""
        if self._given_session is not None:
            return self._given_session
        if self._made_session is None:
            options = self._options
            self._made_session = make_session(
                name=options.name or f"{PROG} {options.job_name}",
                master=options.master,
                remote=options.remote,
                settings=dict(options.conf or ()),
            )
        return self._made_session

    @property
    def parallelism(self) -> int | None:
        """How many tasks can run at a time; None where only the server knows (Spark Connect)."""
        spark_context = getattr(self.spark, "_sc", None)
        return None if spark_context is None else max(1, int(spark_context.defaultParallelism))

    @property
    def bootstrap(self) -> str:
        """For the option `kafka.bootstrap.servers`. Raises UsageError."""
        found: str | None = self._options.bootstrap_server or self._environment.get(
            "SPRINGTIDE_BOOTSTRAP_SERVER"
        )
        if not found:
            raise UsageError("--bootstrap-server HOST:PORT,... is needed: any of the cluster's brokers")
        return found

    @cached_property
    def client_config(self) -> ClientConfig:
        """Raises UsageError or InvalidClientOption."""
        return ClientConfig(
            bootstrap=parse_bootstrap(self.bootstrap), client_id=f"{PROG}-{self._options.job_name}"
        )

    @property
    def cluster(self) -> str:
        """The cluster's name in the REST API. Raises UsageError."""
        found = load_settings(self._options, self._environment).cluster
        if not found:
            raise UsageError("--cluster NAME is needed: the cluster's name in the controller")
        return found

    @contextmanager
    def controllers(self) -> Iterator[Controllers]:
        """The REST API, with the `springtide` command's retries and redirects. Raises its UsageError."""
        settings = load_settings(self._options, self._environment)
        with httpx.Client(headers={"User-Agent": f"{PROG}/{self._options.job_name}"}) as client:
            yield Controllers(client, settings, make_key=lambda: str(uuid.uuid4()), note=self.note)

    def close(self) -> None:
        """Stops the session that this context made."""
        made, self._made_session = self._made_session, None
        if made is not None:
            made.stop()
