"""The means of a job: a console, and Spark, brokers and controllers, each made when it is first used."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import httpx

from pipeline.client.config import ClientConfig, parse_bootstrap
from pipeline.jobs.job import PROG
from pipeline.jobs.session import make_session
from springtide.cli.call import UsageError
from springtide.cli.client import Controllers
from springtide.cli.console import Console
from springtide.cli.settings import load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Context:
    """environment: for options that are not given. session: used instead of a new one, and kept. note and
    progress: the console's."""

    def __init__(
        self,
        options: argparse.Namespace,
        console: Console,
        environment: Mapping[str, str],
        *,
        session: SparkSession | None = None,
    ) -> None:
        self._options = options
        self.note = console.note
        self.progress = console.progress
        self._environment = environment
        self._given_session = session
        self._made_session: SparkSession | None = None

    @property
    def spark(self) -> SparkSession:
        """The session, made if none was given. Raises JobError or UsageError."""
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
        """Return how many tasks can run at a time; None under Spark Connect, where only the server knows."""
        spark_context = getattr(self.spark, "_sc", None)
        return None if spark_context is None else max(1, int(spark_context.defaultParallelism))

    @property
    def bootstrap(self) -> str:
        """The option `kafka.bootstrap.servers`. Raises UsageError."""
        found: str | None = self._options.bootstrap_server or self._environment.get(
            "SPRINGTIDE_BOOTSTRAP_SERVER"
        )
        if not found:
            raise UsageError("--bootstrap-server HOST:PORT,... is needed: any of the cluster's brokers")
        return found

    @cached_property
    def client_config(self) -> ClientConfig:
        """The client's config. Raises UsageError or InvalidClientOption."""
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
        """The REST API, with the `springtide` command's retries and redirects. Raises UsageError."""
        settings = load_settings(self._options, self._environment)
        headers = {"User-Agent": f"{PROG}/{self._options.job_name}"}
        with httpx.Client(headers=headers, verify=settings.verify) as client:
            yield Controllers(client, settings, make_key=lambda: str(uuid.uuid4()), note=self.note)

    def close(self) -> None:
        """Stop the session that this context made."""
        made, self._made_session = self._made_session, None
        if made is not None:
            made.stop()
