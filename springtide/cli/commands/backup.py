"""springtide backup …: carried out by the program `controller`, which this one starts.

It reads ZooKeeper and SQL, with the controllers' settings, and a restore is made while no controller runs: no
controller can be asked for it, and what it reads (users' secrets) is to go over no network of REST clients.
"""

from __future__ import annotations

from typing import Final

from springtide.cli.command import Argument, Command, CommandKind, argument

_FOLDER: Final = argument("folder", metavar="FOLDER", help="of the backup")


def _settings(verb: str) -> Argument:
    return argument(
        "settings",
        metavar="...",
        nargs="*",
        help=f"those of the controllers: `controller backup {verb} --help`",
    )


COMMANDS: Final = (
    Command(
        words=("backup", "create"),
        summary="Back up ZooKeeper and SQL, where a controller's settings are",
        examples=(
            "backup create monday --config /etc/springtide/controller.toml",
            "backup create monday --zookeeper zk1:2181,zk2:2181,zk3:2181",
        ),
        kind=CommandKind.BACKUP,
        in_cluster=False,
        arguments=(_FOLDER, _settings("create")),
    ),
    Command(
        words=("backup", "verify"),
        summary="Read a whole backup and say what it has",
        examples=("backup verify monday",),
        kind=CommandKind.BACKUP,
        in_cluster=False,
        arguments=(_FOLDER,),
    ),
    Command(
        words=("backup", "restore"),
        summary="Put a backup into an empty ZooKeeper and an empty database, while no controller runs",
        examples=(
            "backup restore monday --config /etc/springtide/controller.toml --dry-run",
            "backup restore monday --config /etc/springtide/controller.toml",
        ),
        kind=CommandKind.BACKUP,
        in_cluster=False,
        arguments=(_FOLDER, _settings("restore")),
    ),
)
