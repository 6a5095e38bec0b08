"""The commands that restart a process, and the names that are not put into one."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from springtide.cli.restarts import UnsafeName, by_kubectl, by_template, template
from springtide.cli.rolling import RolledProcess

SSH = template("ssh {host} sudo systemctl restart {unit}")


def process(kind: str = "broker", name: str = "3", host: str = "store3") -> RolledProcess:
    return RolledProcess(kind=kind, name=name, host=host, state="active")


def test_the_fields_of_a_template_are_filled_in_word_by_word() -> None:
    assert by_template(SSH)(process()) == [
        "ssh",
        "store3",
        "sudo",
        "systemctl",
        "restart",
        "springtide-broker@3",
    ]
    controller = process("controller", "ctl1:8080", "ctl1")
    assert by_template(SSH)(controller)[-1] == "springtide-controller"
    words = template("run 'a word; with {kind}-{id}' --host={host} {id}{id}")
    assert by_template(words)(process(host="::1")) == ["run", "a word; with broker-3", "--host=::1", "33"]


@pytest.mark.parametrize("text", ["", "   ", "ssh 'open", "ssh {hots}", "ssh {}", "ssh {host.run}"])
def test_a_template_that_can_not_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        template(text)


@pytest.mark.parametrize(
    "host",
    [
        "-oProxyCommand=reboot",
        "store3;reboot",
        "store3 reboot",
        "$(reboot)",
        "`reboot`",
        "store3\nreboot",
        "store3\n",
        "store3'",
        "a/../b",
        "{id}",
        "",
        "a" * 300,
    ],
)
def test_a_hosts_name_that_a_shell_could_read_is_refused(host: str) -> None:
    """The host comes from what a process told the controller."""
    with pytest.raises(UnsafeName):
        by_template(SSH)(process(host=host))
    with pytest.raises(UnsafeName):
        by_kubectl(namespace="n", context=None)(process("controller", "x", host))


def test_a_pod_is_deleted_by_its_name() -> None:
    make = by_kubectl(namespace="prod", context=None)
    assert make(process()) == ["kubectl", "--namespace", "prod", "delete", "pod", "broker-3"]
    assert make(process("coordinator", "1001"))[-1] == "coordinator-1001"
    controller = process("controller", "c", "controller-0.controllers.prod.svc")
    assert by_kubectl(namespace="prod", context="eu")(controller) == [
        *("kubectl", "--context", "eu", "--namespace", "prod", "delete", "pod", "controller-0"),
    ]
