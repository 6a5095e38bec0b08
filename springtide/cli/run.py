"""Carries a command out: sends its call, shows the answer, and returns the exit status."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import IntEnum
from typing import Any, Final, assert_never

import msgspec
from httpx_sse import ServerSentEvent

from springtide.cli.call import Call, Json, UsageError, get
from springtide.cli.client import NOT_NOW, Controllers, ListPage, NoStream, Reply, RequestRefused, Unreachable
from springtide.cli.command import Command, CommandKind
from springtide.cli.console import Console
from springtide.cli.problems import problem_lines, problem_of
from springtide.cli.progress import (
    SUCCEEDED,
    Operation,
    bar_line,
    ending_line,
    event_line,
    has_ended,
)
from springtide.cli.roll import RollingRestart
from springtide.cli.tables import Table, describe, printable
from springtide.cli.upgrades import upgrade_lines

#: Items a page: the most that the API gives, so that a long list takes few answers.
PAGE_LIMIT: Final = 1_000
#: The age of older answers is shown.
AGE_MS_MAX: Final = 2_000


#: The fields of every list; its other fields are about the whole list and are shown before it.
LIST_FIELDS: Final = ("items", "next_page_token")


class _Named(msgspec.Struct):
    name: str


class _Clusters(msgspec.Struct):
    items: list[_Named]


class _Accepted(msgspec.Struct):
    id: str


class _Verified(msgspec.Struct):
    ok: bool
    rows: int
    outcomes: int
    next_from_seq: int | None


class Exit(IntEnum):
    DONE = 0
    REFUSED = 1
    USAGE = 2
    UNREACHABLE = 3
    INTERRUPTED = 130


class _Watch:
    """Shows an operation's states, each once, as they come."""

    def __init__(self, console: Console, *, with_json: bool) -> None:
        self._console = console
        self._with_json = with_json
        self._shown: Operation = {}
        #: Of the last event that was shown.
        self.last_id = ""

    def tell_event(self, event: ServerSentEvent) -> bool:
        """Take in an event, as `tell` does. Raise NoStream if it is not about an operation."""
        if event.event != "operation":
            return False
        try:
            operation = msgspec.json.decode(event.data, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise NoStream("its events are no operations") from error
        self.last_id = event.id
        return self.tell(event.data.encode(), operation)

    def tell(self, body: bytes, operation: Operation) -> bool:
        """Show the operation if it has changed; return whether it has ended."""
        ended = has_ended(operation)
        if operation != self._shown:
            self._show(body, operation, with_json=self._with_json or ended)
            self._shown = operation
        return ended

    def finish(self) -> Exit:
        if not self._console.is_json:
            self._console.lines([ending_line(self._shown)])
        return Exit.DONE if self._shown.get("state") == SUCCEEDED else Exit.REFUSED

    def _show(self, body: bytes, operation: Operation, *, with_json: bool) -> None:
        console = self._console
        if console.is_json:
            if with_json:
                console.raw(body, b"\n")
        elif console.columns is None:
            console.lines([event_line(operation)])
        else:
            console.redraw("" if has_ended(operation) else bar_line(operation, columns=console.columns - 1))


class Runner:
    """read_secret: returns the answer to a question for a secret; it raises UsageError."""

    def __init__(
        self,
        controllers: Controllers,
        console: Console,
        *,
        read_secret: Callable[[str], str],
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._controllers = controllers
        self._now = now
        self._console = console
        self._read_secret = read_secret
        self._sleep = sleep

    def run(self, command: Command, options: argparse.Namespace) -> Exit:
        """Run a command and print its errors. options: `cluster` in it may be None."""
        try:
            return self._run(command, options)
        except UsageError as error:
            self._console.fail(str(error))
            return Exit.USAGE
        except RequestRefused as refused:
            return self._refused(refused)
        except Unreachable as unreachable:
            self._console.fail(f"no controller could be reached: {unreachable}")
            self._say_unknown(unreachable.key)
            return Exit.UNREACHABLE

    def _run(self, command: Command, options: argparse.Namespace) -> Exit:
        if command.in_cluster:
            options.cluster = (
                getattr(options, "cluster_name", None) or options.cluster or self._only_cluster()
            )
        if command.hidden_question is not None:
            options.hidden_answer = self._read_secret(command.hidden_question)
        if command.kind is CommandKind.ROLL:
            rolling = RollingRestart(self._controllers, self._console, now=self._now, sleep=self._sleep)
            return Exit.DONE if rolling.run(options) else Exit.REFUSED
        call = command.call(options)
        match command.kind:
            case CommandKind.SHOW:
                self._show(self._controllers.send(call), pick=command.pick)
                return Exit.DONE
            case CommandKind.UPGRADE:
                self._show_upgrade(self._controllers.send(call))
                return Exit.DONE
            case CommandKind.LIST:
                self._list(command, call, getattr(options, "limit", None))
                return Exit.DONE
            case CommandKind.WRITE:
                if not self._may_go_on(command, options):
                    self._console.note("nothing was changed")
                    return Exit.REFUSED
                return self._write(call, options)
            case CommandKind.WATCH:
                return self._watch(options.operation_id, options.interval, with_json=True)
            case CommandKind.VERIFY:
                return self._verify(call)
            case CommandKind.COMPLETION | CommandKind.CERTIFICATES | CommandKind.BACKUP:
                raise AssertionError("printed without a controller")
            case _:
                assert_never(command.kind)

    def _may_go_on(self, command: Command, options: argparse.Namespace) -> bool:
        if command.question is None or options.yes or options.dry_run:
            return True
        shown = {name: printable(str(value)) for name, value in vars(options).items()}
        return self._console.agrees(command.question.format(**shown))

    def _only_cluster(self) -> str:
        found = self._controllers.send(get("clusters", limit=2)).parse(_Clusters).items
        if len(found) == 1:
            return found[0].name
        if found:
            raise UsageError("there are several clusters: choose one with --cluster")
        raise UsageError("there is no cluster yet: springtide clusters create NAME")

    def _show(self, reply: Reply, *, pick: str | None = None) -> None:
        if self._console.is_json:
            body = reply.body if pick is None else bytes(reply.fields().get(pick, b"null"))
            self._console.raw(body, b"\n")
            return
        document = reply.document()
        shown = document if pick is None else document.get(pick) or {}
        lines = describe(shown, width=self._console.width)
        if (etag := reply.headers.get("etag")) and pick is None:
            lines.append(f"etag: {etag}")
        self._console.lines(lines)
        self._say_age(reply)

    def _show_upgrade(self, reply: Reply) -> None:
        if self._console.is_json:
            self._console.raw(reply.body, b"\n")
        else:
            self._console.lines(upgrade_lines(reply.document(), width=self._console.width))

    def _say_age(self, reply: Reply) -> None:
        """Print how old the answer is, if a standby that lost its connection gave it."""
        age = reply.headers.get("data-age-ms", "")
        if age.isascii() and age.isdigit() and int(age) > AGE_MS_MAX:
            self._console.note(f"springtide: this answer is {int(age) / 1000:.0f} s old: a standby gave it")

    def _list(self, command: Command, call: Call, limit: int | None) -> None:
        if not command.is_paged:
            replies = iter([self._controllers.send(call)])
        else:
            replies = self._controllers.pages(call, page_limit=PAGE_LIMIT, limit=limit)
        if self._console.is_json:
            self._join(replies)
            return
        table = Table(command.columns, width=self._console.width)
        about: Json | None = None
        for reply in replies:
            if about is None:
                told = reply.document()
                about = {name: value for name, value in told.items() if name not in LIST_FIELDS}
                if command.about is not None:
                    about = {name: about[name] for name in command.about if about.get(name)}
                self._console.lines([*describe(about), ""] if about else [])
            self._console.lines(table.lines(reply.parse(ListPage).items))
            self._say_age(reply)
        for line in table.notes():
            self._console.note(line)

    def _join(self, replies: Iterable[Reply]) -> None:
        """Print all pages as one, while they arrive: the shape of a page, every item as it came."""
        separator = b""
        fields: dict[str, msgspec.Raw] = {}
        is_first = True
        for reply in replies:
            fields = reply.fields()
            if is_first:
                is_first = False
                others = {name: fields[name] for name in fields if name not in LIST_FIELDS}
                head = b"".join(
                    msgspec.json.encode(name) + b":" + bytes(raw) + b"," for name, raw in others.items()
                )
                self._console.raw(b"{", head, b'"items":[')
            for item in msgspec.json.decode(fields["items"], type=list[msgspec.Raw]):
                self._console.raw(separator, bytes(item))
                separator = b",\n"
        token = bytes(fields["next_page_token"]) if "next_page_token" in fields else None
        self._console.raw(b"]" if token is None else b'],"next_page_token":' + token, b"}\n")

    def _write(self, call: Call, options: argparse.Namespace) -> Exit:
        reply = self._controllers.send(call, key=options.idempotency_key)
        if options.idempotency_key is not None and reply.headers.get("idempotency-replayed") == "true":
            self._console.note("springtide: this is the answer to the first request with that key")
        if reply.status != 202:
            self._show(reply)
            return Exit.DONE
        operation_id = reply.parse(_Accepted).id
        if options.wait:
            return self._watch(operation_id, options.interval, with_json=False)
        self._show(reply)
        if not self._console.is_json and not has_ended(reply.document()):
            self._console.note(f"follow it with: springtide operations watch {operation_id}")
        return Exit.DONE

    def _watch(self, operation_id: str, interval_s: float, *, with_json: bool) -> Exit:
        """Follow an operation by its stream of events; without one, or after its end, ask now and then.

        with_json: print each state, not only the last, if JSON was asked for.
        """
        watch = _Watch(self._console, with_json=with_json)
        streams = get("operations", operation_id, "events")
        has_stream = True
        while True:
            if has_stream:
                try:
                    for event in self._controllers.events(streams, last_id=watch.last_id):
                        if watch.tell_event(event):
                            return watch.finish()
                except NoStream:
                    has_stream = False
            reply = self._controllers.send(get("operations", operation_id))
            if watch.tell(reply.body, reply.document()):
                return watch.finish()
            self._sleep(interval_s)

    def _verify(self, call: Call) -> Exit:
        rows = outcomes = 0
        while True:
            reply = self._controllers.send(call)
            if self._console.is_json:
                self._console.raw(reply.body, b"\n")
            found = reply.parse(_Verified)
            rows += found.rows
            outcomes += found.outcomes
            if not found.ok or found.next_from_seq is None:
                break
            call = replace(call, query={**call.query, "from_seq": str(found.next_from_seq)})
        if not self._console.is_json:
            self._console.lines(describe({**reply.document(), "rows": rows, "outcomes": outcomes}))
        return Exit.DONE if found.ok else Exit.REFUSED

    def _refused(self, refused: RequestRefused) -> Exit:
        if self._console.is_json and problem_of(refused.body):
            self._console.note(self._console.text_of(refused.body).rstrip("\n"))
        else:
            self._console.fail(*problem_lines(refused.status, refused.body))
        self._say_unknown(refused.key)
        return Exit.UNREACHABLE if refused.status in NOT_NOW else Exit.REFUSED

    def _say_unknown(self, key: str | None) -> None:
        if key is not None:
            self._console.note(
                f"  it may have been done all the same: repeat it with --idempotency-key {key} to find out"
            )
