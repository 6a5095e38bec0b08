"""The means of a job: a console, and Spark, brokers and controllers, each made when it is first used."""

from __future__ import annotations

import argparse
import os
import ssl
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import httpx

from pipeline.client.config import ClientConfig, client_config
from pipeline.client.security import PLAIN, ClientSecurity, client_security
from pipeline.jobs.command_config import read_command_config
from pipeline.jobs.job import PROG
from pipeline.jobs.session import SUBMITTED, make_session
from pipeline.jobs.tasks import JobEngine, Progress, is_small, run_here
from springtide.cli.call import UsageError
from springtide.cli.client import Controllers
from springtide.cli.console import Console
from springtide.cli.settings import load_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


#: Spark's own, for a URL with a token in it.
SPARK_REMOTE = "SPARK_REMOTE"


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
        self._remote: str | None = options.remote or environment.get(SPARK_REMOTE) or None
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
                remote=self._remote,
                settings=dict(options.conf or ()),
            )
        return self._made_session

    @cached_property
    def _engine(self) -> JobEngine:
        """The engine that the command line asks for. Raises UsageError for a contradiction."""
        options = self._options
        engine = JobEngine(getattr(options, "engine", JobEngine.SPARK))
        is_spark_named = options.master is not None or self._remote is not None
        if engine is JobEngine.LOCAL and is_spark_named:
            raise UsageError("--engine local needs no Spark, and --master or --remote names one")
        if engine is JobEngine.AUTO and (
            is_spark_named or self._given_session is not None or SUBMITTED in self._environment
        ):
            return JobEngine.SPARK
        return engine

    def run_tasks(
        self,
        run: Callable[[T], R],
        tasks: Sequence[T],
        *,
        size: Callable[[], int | None],
        shown: Progress | None = None,
    ) -> list[R]:
        """Return what `run` returned for each task, in order. size: how many bytes they read, None if that is
        unknown; asked for if the engine depends on it. A Spark that was started for larger tasks is used.
        Raises UsageError, and what `run` or Spark raises."""
        if not tasks:
            return []
        progress = shown or (lambda done, total: self.progress(done, total, f"{done} of {total} tasks"))
        engine = self._engine
        if engine is JobEngine.AUTO:
            is_here = self._made_session is None and is_small(size(), len(tasks))
            engine = JobEngine.LOCAL if is_here else JobEngine.SPARK
        if engine is JobEngine.LOCAL:
            return run_here(run, tasks, progress=progress)
        from pipeline.jobs.spark_tasks import run_tasks  # noqa: PLC0415 - only this needs PySpark

        return run_tasks(self.spark, run, tasks, progress=progress)

    @property
    def parallelism(self) -> int | None:
        """Return how many tasks can run at a time; None under Spark Connect, where only the server knows.
        It starts no Spark that may not be needed: local[*] has this machine's processors."""
        if self._engine is JobEngine.LOCAL:
            return 1
        if self._engine is JobEngine.AUTO and self._made_session is None:
            return os.cpu_count() or 1
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
        return self.client_of(self.bootstrap, self._options.command_config)

    @property
    def security(self) -> ClientSecurity:
        """TLS and the login of `--command-config`. Raises UsageError, InvalidClientOption."""
        file = self._options.command_config
        return PLAIN if file is None else client_security(read_command_config(Path(file)))

    def client_of(self, bootstrap: str, command_config: str | None) -> ClientConfig:
        """Return the config for a cluster. command_config: a file. Raises UsageError, InvalidClientOption."""
        given = {"client.id": f"{PROG}-{self._options.job_name}"}
        if command_config is not None:
            given |= read_command_config(Path(command_config))
        return client_config(given | {"bootstrap.servers": bootstrap}, prefix="")

    @property
    def cluster(self) -> str:
        """The cluster's name in the REST API. Raises UsageError."""
        found = load_settings(self._options, self._environment).cluster
        if not found:
            raise UsageError("--cluster NAME is needed: the cluster's name in the controller")
        return found

    @property
    def verify(self) -> ssl.SSLContext | bool:
        """What is trusted and shown over HTTPS: `--ca-file`, `--cert-file`, `--key-file`. Raises
        UsageError."""
        return load_settings(self._options, self._environment).verify

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
