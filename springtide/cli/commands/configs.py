"""springtide configs …"""

from __future__ import annotations

from argparse import Namespace

from springtide.cli.arguments import id_number, setting, settings_of
from springtide.cli.call import Call, UsageError, get, write, writes
from springtide.cli.command import Command, argument, change, listing, repeated
from springtide.cli.tables import columns

#: Whose settings: exactly one of them, because some names are both a topic's and the cluster's.
_WHOSE = (
    argument("--topic", metavar="TOPIC", help="this topic's"),
    argument("--broker", type=id_number, metavar="ID", help="this broker's"),
    argument("--defaults", action="store_true", help="the cluster's: defaults of its topics and brokers"),
)
_WHOSE_OR_GROUPS = (
    *_WHOSE,
    argument("--group", metavar="GROUP", help="this group's, of the consumer protocol"),
)
_NAME = argument("name", metavar="NAME", help="the setting's name, such as min.insync.replicas")


def _holder(options: Namespace) -> tuple[object, ...]:
    has_groups = hasattr(options, "group")
    whose: list[tuple[object, ...]] = []
    if options.topic is not None:
        whose.append(("topics", options.topic, "configs"))
    if options.broker is not None:
        whose.append(("brokers", options.broker, "configs"))
    if has_groups and options.group is not None:
        whose.append(("group-configs", options.group))
    if options.defaults:
        whose.append(("configs",))
    if len(whose) != 1:
        groups = ", --group" if has_groups else ""
        raise UsageError(f"say whose settings: one of --topic, --broker{groups} and --defaults")
    return ("clusters", options.cluster, *whose[0])


def _alter(options: Namespace) -> Call:
    configs: dict[str, str | None] = dict(settings_of(options.settings))
    for name in options.unset:
        if name in configs:
            raise UsageError(f"{name!r} is both set and unset")
        configs[name] = None
    if not configs:
        raise UsageError("nothing to change: give KEY=VALUE, or --unset NAME")
    return write(options, "POST", *_holder(options), action="alter", body={"configs": configs})


def _history(options: Namespace) -> Call:
    return get(
        *("clusters", options.cluster, "config-changes"),
        topic=options.topic,
        broker=options.broker,
        group=options.group,
        defaults="true" if options.defaults else None,
        name=options.name,
    )


COMMANDS = (
    listing(
        words=("configs", "list"),
        summary="List settings: what applies, and where it comes from",
        examples=("configs list --topic orders", "configs list --broker 3", "configs list --defaults"),
        arguments=_WHOSE_OR_GROUPS,
        call=lambda options: get(*_holder(options)),
        columns=columns(
            "name value in-words=in_words source default cluster-config=cluster_config "
            "read-only=is_read_only note"
        ),
    ),
    Command(
        words=("configs", "show"),
        summary="Look at one setting",
        examples=("configs show min.insync.replicas --topic orders",),
        arguments=(_NAME, *_WHOSE),
        call=lambda options: get(*_holder(options), options.name),
    ),
    change(
        words=("configs", "alter"),
        summary="Set and unset some settings: all of them, or none",
        examples=(
            "configs alter --topic orders min.insync.replicas=2 --unset retention.ms --reason money",
            "configs alter --topic orders 'retention.ms=7 d' --dry-run",
            "configs alter --group billing consumer.session.timeout.ms=60000",
            "configs alter --broker 3 follower.replication.throttled.rate=50000000",
            "configs alter --defaults log.retention.ms=3600000 --dry-run",
        ),
        is_conditional=True,
        arguments=(
            argument(
                "settings",
                metavar="KEY=VALUE",
                nargs="*",
                type=setting,
                help="a setting under Kafka's name, and its value; .ms also with units: 7 d, 1 h 30 min",
            ),
            *_WHOSE_OR_GROUPS,
            repeated(
                "--unset",
                metavar="NAME",
                help="let the default apply again; may be repeated",
            ),
        ),
        call=_alter,
    ),
    listing(
        words=("configs", "history"),
        summary="List changes of settings, newest first, with the values before and after",
        examples=(
            "configs history --topic orders",
            "configs history retention.ms",
            "configs history --defaults --limit 5",
        ),
        arguments=(
            argument("name", metavar="NAME", nargs="?", help="only changes of this setting"),
            *_WHOSE_OR_GROUPS,
        ),
        call=_history,
        columns=columns(
            "#change=id at whose=entity topic #broker=broker_id group=group_id changes actor reason"
        ),
    ),
    change(
        words=("configs", "undo"),
        summary="Set what a change of settings has changed back to what it was",
        examples=(
            "configs undo 17 --dry-run",
            "configs undo 17 --reason 'records went too early'",
        ),
        is_conditional=True,
        arguments=(
            argument("audit_id", metavar="CHANGE", type=id_number, help="its number in `configs history`"),
        ),
        call=writes("POST", "clusters/{cluster}/config-changes/{audit_id}", action="undo"),
    ),
)
