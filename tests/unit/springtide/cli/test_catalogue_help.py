"""Help, usage errors and completion, all made from the commands."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache

import pytest

from springtide.__main__ import execute, main
from springtide.cli.catalogue import COMMANDS
from springtide.cli.command import Command


@pytest.mark.parametrize("command", [pytest.param(c, id=" ".join(c.words)) for c in COMMANDS])
def test_every_command_explains_itself(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.words, "--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert command.summary in shown
    for example in command.examples:
        assert f"springtide {example}" in shown


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "topics",
        "topics list --lim 3",
        "topics list --limit 0",
        "topics list --limit ²",
        "topics create t --partitions 1_000",
        "topics create t --config novalue",
        "topics create t --config =value",
        "topics create t --replica-assignment 1:x",
        "brokers add",
        "brokers add store4:9092",
        "brokers add x@store4:9092",
        "brokers add 4@store4",
        "brokers add 4@store4:9092/",
        "brokers show one",
        "brokers demote",
        "configs alter --topic orders =value",
        "operations throttle op_1 0",
        "reassignments start orders 0 1:2 --throttle 5MB",
        "reassignments start orders 0 4:x",
        "reassignments start orders 0",
        "elect-preferred --partition orders",
        "elect-preferred --partition -0",
        "topics add-partitions orders 0",
        "acls add User:a read topic",
        "acls add User:a read",
        "quotas set producer_byte_rate=much --user a",
        "users set",
        "clusters list --output xml",
        "clusters list --timeout -1",
        "clusters list --timeout nan",
        "clusters list --reason why",
        "completion cmd",
    ],
)
def test_what_can_not_be_understood_exits_with_2(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert "usage: springtide" in capsys.readouterr().err


def test_a_wrong_option_shows_the_usage_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["topics", "list", "--bogus", "more"])
    shown = capsys.readouterr().err
    assert shown.startswith("usage: springtide topics list ")
    assert shown.endswith("springtide topics list: error: unrecognized arguments: --bogus more\n")


def test_words_are_told_apart() -> None:
    words = [command.words for command in COMMANDS]
    assert len(set(words)) == len(words)


@pytest.fixture(scope="module")
def script() -> Callable[[str], str]:
    @cache
    def printed(shell: str) -> str:
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        assert execute(["completion", shell], {}, out, io.StringIO(), columns=None) == 0
        return out.buffer.getvalue().decode()

    return printed


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_every_command(shell: str, script: Callable[[str], str]) -> None:
    told = script(shell)
    assert all(word in told for command in COMMANDS for word in command.words)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["to"], {"topics"}),
        (
            ["topics", ""],
            {"list", "missing", "create", "show", "configs", "add-partitions", "set-replication-factor"}
            | {"delete", "deleted", "restore", "purge"},
        ),
        (["topics", "create", "orders", "--part"], {"--partitions"}),
        (["--url", "ctl1", "brokers", "a"], {"add"}),
        (["elect-leader", "--election-type", "un"], {"unclean"}),
        (["--output", "json", "topics", "l"], {"list"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes_words_and_options(
    typed: list[str], offered: set[str], script: Callable[[str], str]
) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    ask = 'COMP_WORDS=(springtide "$@"); COMP_CWORD=$#; _shtab_springtide; printf "%s\\n" "${COMPREPLY[@]}"'
    line = [bash, "--norc", "-c", f"{script('bash')}\n{ask}", "bash", *typed]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=20)
    found = {word for word in done.stdout.split() if not word.startswith("-") or typed[-1].startswith("-")}
    assert found == offered
    assert done.stderr == ""


def test_a_reader_that_has_enough_is_no_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "springtide", "completion", "bash"],
            stdout=write_end,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")
