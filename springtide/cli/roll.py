"""Restarts every process of a cluster, one by one: looks, asks rolling.py what to do, and does it.

A process hands its leaderships or shards over by itself when it is told to stop (SIGTERM); a command of the
operator's restarts it. Controllers are asked one by one at the URLs of `--url`, which must name all of them.
"""

from __future__ import annotations

import shlex
import subprocess
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import httpx
import msgspec

from springtide.cli.call import Call, Json, UsageError, get
from springtide.cli.client import NOT_NOW, Controllers, ListPage, Reply, RequestRefused, Unreachable
from springtide.cli.console import Console
from springtide.cli.restarts import MakeCommand, UnsafeName, by_kubectl, by_template
from springtide.cli.rolling import AllDone, Restart, Roll, RolledProcess, Sight, Stop, Wait, not_well, pace
from springtide.cli.tables import Table, columns, printable

PLAN: Final = columns("kind name host state version")
PAGE_LIMIT: Final = 1_000
#: Of what a command that failed has written.
SHOWN_CHARS_MAX: Final = 2_000


class CommandFailed(Exception):
    """The command that restarts a process did not end well; the message says how."""


class RollingRestart:
    def __init__(
        self,
        controllers: Controllers,
        console: Console,
        *,
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._controllers = controllers
        self._console = console
        self._now = now
        self._sleep = sleep

    def run(self, options: Namespace) -> bool:
        """Restart what is to be restarted; return whether all is done and well. Raise UsageError,
        RequestRefused, Unreachable."""
        make = _how(options)
        roll = Roll(version=options.to, patience_s=options.patience)
        sight = self._look(options.cluster)
        self._check_urls(sight, options.cluster)
        if options.dry_run:
            self._show_plan(roll.left(sight), not_well(sight))
            return True
        if make is None:
            raise UsageError("say how to restart a process: --kubectl or --command (or look with --dry-run)")
        return self._roll(roll, sight, make, options)

    def _roll(self, roll: Roll, first: Sight, make: MakeCommand, options: Namespace) -> bool:
        sight: Sight | None = first
        told = total = 0
        while True:
            step = roll.step(sight, self._now())
            if sight is not None:
                total = len(roll.done) + len(roll.left(sight))
            if len(roll.done) > told:
                told = len(roll.done)
                self._tell_back(roll, told, total)
            match step:
                case Wait(why=why):
                    self._console.progress(
                        told, total, f"{told} of {total} restarted; waits: {printable(why)}"
                    )
                    self._sleep(options.interval)
                case Stop(why=why):
                    self._console.fail(*map(printable, why.splitlines()))
                    return False
                case AllDone():
                    self._tell(
                        f"all is well: {total} of {total} restarted" if total else "nothing to restart"
                    )
                    if roll.version is not None:
                        self._tell("springtide upgrade status says what finalizing the upgrade waits for")
                    return True
                case Restart(process=process):
                    began = self._now()
                    if not self._restart(process, make, f"{told + 1} of {total}", options.patience):
                        return False
                    roll.on_restarted(process, began)
            sight = self._look_again(options.cluster)

    def _restart(self, process: RolledProcess, make: MakeCommand, number: str, patience_s: float) -> bool:
        """Run the command that restarts the process; return whether it ended well."""
        try:
            words = make(process)
            self._tell(f"{number}: restarts {printable(process.title)}: {printable(shlex.join(words))}")
            run_command(words, timeout_s=patience_s)
        except (CommandFailed, UnsafeName) as error:
            self._console.fail(
                str(error), "  nothing else was stopped. When that is mended, run this command again"
            )
            return False
        return True

    # What is told

    def _show_plan(self, left: Sequence[RolledProcess], trouble: str | None) -> None:
        rows = [msgspec.to_builtins(one) for one in left]
        if self._console.is_json:
            self._console.raw(msgspec.json.encode({"items": rows, "waits_for": trouble}), b"\n")
            return
        self._console.lines(Table(PLAN, width=self._console.width).lines(rows))
        if not rows:
            self._console.note("nothing to restart")
        if trouble is not None:
            self._console.note(f"before the first of them it would wait: {printable(trouble)}")

    def _tell_back(self, roll: Roll, told: int, total: int) -> None:
        *_, (kind, name) = roll.done
        seconds = roll.done[kind, name]
        speed = pace(roll.done.values(), total - told)
        self._tell(f"{told} of {total}: {kind} {printable(name)} is back after {seconds:.0f} s; {speed}")

    def _tell(self, line: str) -> None:
        self._console.note(line)

    # What the controllers say

    def _look_again(self, cluster: str) -> Sight | None:
        """Return how the cluster is, or None while no active controller answers. Raise RequestRefused."""
        try:
            return self._look(cluster)
        except Unreachable:
            return None
        except RequestRefused as refused:
            if refused.status not in NOT_NOW:
                raise
            return None

    def _look(self, cluster: str) -> Sight:
        controllers = [_controller(url, reply) for url, reply in self._controllers.each(get("readyz"))]
        told = self._ask(get("clusters", cluster)).document()
        brokers = [_node("broker", one) for one in self._list("clusters", cluster, "brokers")]
        coordinators = [_node("coordinator", one) for one in self._list("clusters", cluster, "coordinators")]
        counts = told["partitions"]
        lag = 0
        if counts["under_replicated"]:
            replication = self._ask(get("clusters", cluster, "replication")).document()
            lag = sum(one["lag_records"] or 0 for one in replication["brokers"])
        return Sight(
            processes=(*controllers, *brokers, *coordinators),
            leaderless=counts["leaderless"],
            under_min_isr=counts["under_min_isr"],
            under_replicated=counts["under_replicated"],
            lag_records=lag,
            is_lost=told["health"] == "metadata_went_back",
        )

    def _ask(self, call: Call) -> Reply:
        """Ask the active controller: a standby's copy may be older than what was just restarted."""
        return self._controllers.send(replace(call, needs_active=True))

    def _list(self, *names: str) -> list[Json]:
        pages = self._controllers.pages(
            replace(get(*names), needs_active=True), page_limit=PAGE_LIMIT, limit=None
        )
        return [item for page in pages for item in page.parse(ListPage).items]

    def _check_urls(self, sight: Sight, cluster: str) -> None:
        """Raise UsageError unless each controller was named, and none twice."""
        named = [one for one in sight.processes if one.kind == "controller"]
        runs = [one.run for one in named if one.run is not None]
        if len(set(runs)) < len(runs):
            raise UsageError("--url: two of these are one controller: give each controller's own URL, once")
        try:
            told = self._ask(get("clusters", cluster, "upgrade")).document()
        except RequestRefused as refused:
            if refused.status != httpx.codes.NOT_FOUND:
                raise
            return  # a controller of 0.1 does not know the others
        running = [one for one in told["processes"] if one["kind"] == "controller" and one["is_running"]]
        if len(running) > len(named):
            raise UsageError(f"--url names {len(named)} of {len(running)} controllers: name each of them")


def _how(options: Namespace) -> MakeCommand | None:
    if options.kubectl and options.restart_command is not None:
        raise UsageError("choose one: --kubectl or --command")
    if options.kubectl:
        return by_kubectl(namespace=options.namespace, context=options.context)
    return None if options.restart_command is None else by_template(options.restart_command)


def _controller(url: httpx.URL, reply: Reply | None) -> RolledProcess:
    """Return a controller as its /readyz says; None: it did not say that it is ready. Its host is that of the
    address that it tells: the one at which it was asked may be a forwarded port."""
    told: dict[str, Any] = {} if reply is None else reply.document()
    return RolledProcess(
        kind="controller",
        name=url.netloc.decode("ascii"),
        host=httpx.URL(told.get("url", url)).host,
        state=told.get("role", "not ready"),
        run=told.get("controller_id"),
        version=told.get("version"),
    )


def _node(kind: str, told: Json) -> RolledProcess:
    return RolledProcess(
        kind=kind,
        name=str(told[f"{kind}_id"]),
        host=told["endpoint"].rpartition(":")[0].removeprefix("[").removesuffix("]"),
        state=told["state"],
        run=told["incarnation_id"],
        version=told["version"],
    )


def run_command(words: Sequence[str], *, timeout_s: float) -> None:
    """Run a command to its end, without a shell. Raise CommandFailed."""
    try:
        ended = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(f"{words[0]} did not end within {timeout_s:g} s") from error
    except OSError as error:
        raise CommandFailed(f"{words[0]} could not be started: {error.strerror or error}") from error
    if ended.returncode:
        said = ended.stdout.decode("utf-8", "replace").strip()[-SHOWN_CHARS_MAX:]
        lines = "".join(f"\n  {printable(line)}" for line in said.splitlines())
        raise CommandFailed(f"{words[0]} ended with status {ended.returncode}{lines}")
