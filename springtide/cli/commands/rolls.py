"""springtide upgrade roll"""

from __future__ import annotations

from springtide.cli.arguments import seconds
from springtide.cli.command import Command, CommandKind, argument
from springtide.cli.restarts import template

COMMANDS = (
    Command(
        words=("upgrade", "roll"),
        summary="Restart every process of a cluster, one by one, each once all replicas are in sync again",
        examples=(
            "--url ctl1:8080,ctl2:8080 upgrade roll --dry-run",
            "upgrade roll --to 0.3.0 --command 'ssh {host} sudo systemctl restart {unit}'",
            "upgrade roll --to 0.3.0 --kubectl --namespace springtide",
        ),
        kind=CommandKind.ROLL,
        arguments=(
            argument(
                "--command",
                dest="restart_command",
                type=template,
                metavar="COMMAND",
                help="what restarts a process, run without a shell; in it stand {kind}, {id}, {host} and "
                "{unit}, the systemd unit, such as springtide-broker@3",
            ),
            argument(
                "--kubectl",
                action="store_true",
                help="delete its pod, of packaging/kubernetes: the StatefulSet makes it anew",
            ),
            argument(
                "--namespace", default="springtide", metavar="NAME", help="of the pods (default springtide)"
            ),
            argument("--context", metavar="NAME", help="for kubectl (default: its present one)"),
            argument(
                "--to",
                metavar="VERSION",
                help="leave out what runs this version already, and stop at a process that comes back with "
                "another (default: each is restarted once)",
            ),
            argument(
                "--patience",
                type=seconds,
                default=600.0,
                metavar="SECONDS",
                help="stop when nothing has got better for so long (default 600)",
            ),
            argument(
                "--interval",
                type=seconds,
                default=2.0,
                metavar="SECONDS",
                help="between two looks at the cluster (default 2)",
            ),
            argument("--dry-run", action="store_true", help="show what would be restarted, in order"),
        ),
    ),
)
