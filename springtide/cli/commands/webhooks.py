"""springtide webhooks …, silences …"""

from __future__ import annotations

from argparse import Namespace
from typing import Any, Final

from springtide.cli.arguments import count
from springtide.cli.call import given, reads, writes
from springtide.cli.command import Command, argument, change, listing
from springtide.cli.tables import columns

_WEBHOOK: Final = "clusters/{cluster}/webhooks/{name}"
_SILENCES: Final = "clusters/{cluster}/silences"
_NAME: Final = argument("name", metavar="NAME", help="the webhook's name, such as pager")
_SETTINGS: Final = (
    argument("--format", choices=("json", "slack"), default="json", help="of messages (default json)"),
    argument("--wait-s", type=int, metavar="S", help="a shorter alarm is not told (default 10)"),
    argument("--settle-s", type=count, metavar="S", help="an alarm ends when gone for so long (default 60)"),
)


def _settings(options: Namespace) -> dict[str, Any]:
    return given(format=options.format, wait_s=options.wait_s, settle_s=options.settle_s)


COMMANDS = (
    listing(
        words=("webhooks", "list"),
        summary="List the URLs that are told alarms, and how they fare",
        examples=("webhooks list",),
        call=reads("clusters/{cluster}/webhooks"),
        columns=columns(
            "webhook=name host state #waiting #dropped delivered=delivered_at failing-since=failing_since "
            "why=last_error"
        ),
    ),
    Command(
        words=("webhooks", "show"),
        summary="Look at a webhook",
        examples=("webhooks show pager",),
        arguments=(_NAME,),
        call=reads(_WEBHOOK),
    ),
    change(
        words=("webhooks", "put"),
        summary="Write a webhook; its URL, a secret, is asked for or read from standard input",
        examples=(
            "webhooks put pager --reason 'the night shift'",
            "webhooks put channel --format slack --wait-s 60",
        ),
        is_conditional=True,
        hidden_question="URL",
        arguments=(_NAME, *_SETTINGS),
        call=writes("PUT", _WEBHOOK, lambda options: {"url": options.hidden_answer, **_settings(options)}),
    ),
    change(
        words=("webhooks", "change"),
        summary="Change a webhook and keep its URL; a setting that is left out gets its default",
        examples=(
            "webhooks change pager --new-secret --reason 'it was in a mail'",
            "webhooks change pager --disable",
        ),
        is_conditional=True,
        arguments=(
            _NAME,
            *_SETTINGS,
            argument("--new-secret", action="store_true", help="make a new secret, which is shown once"),
            argument("--disable", action="store_true", help="tell it nothing, until it is changed again"),
        ),
        call=writes(
            "PUT",
            _WEBHOOK,
            lambda options: {
                "new_secret": options.new_secret,
                "enabled": not options.disable,
                **_settings(options),
            },
        ),
    ),
    change(
        words=("webhooks", "test"),
        summary="Send a webhook a sample message",
        examples=("webhooks test pager",),
        arguments=(_NAME,),
        call=writes("POST", _WEBHOOK, action="test"),
    ),
    change(
        words=("webhooks", "delete"),
        summary="Delete a webhook, with the messages that wait for it",
        examples=("webhooks delete pager --reason 'another one took over'",),
        is_conditional=True,
        arguments=(_NAME,),
        call=writes("DELETE", _WEBHOOK),
    ),
    listing(
        words=("silences", "list"),
        summary="List the alarms of which webhooks are told nothing, until when and why",
        examples=("silences list",),
        call=reads(_SILENCES),
        columns=columns(
            "silence=id code topic #partition #broker=broker_id group=group_id "
            "transaction=transactional_id #producer=producer_id until by=actor reason"
        ),
    ),
    change(
        words=("silences", "add"),
        summary="Tell webhooks nothing of some alarms for a time; --reason is needed",
        examples=(
            "silences add --broker-id 3 --minutes 90 --reason 'its board is replaced'",
            "silences add --code group_lag_grows --minutes 720 --reason 'a replay'",
        ),
        arguments=(
            argument("--code", metavar="CODE", help="of alarms, such as broker_fenced"),
            argument("--topic", metavar="TOPIC", help="alarms of this topic"),
            argument("--partition", type=int, metavar="N", help="of the topic"),
            argument("--broker-id", type=int, metavar="ID", help="alarms of this broker"),
            argument("--group-id", metavar="GROUP", help="alarms of this group"),
            argument("--transactional-id", metavar="ID", help="alarms of this transaction"),
            argument("--producer-id", type=int, metavar="ID", help="alarms of this producer's transactions"),
            argument(
                "--minutes", type=count, required=True, metavar="N", help="until it ends, at most 30 days"
            ),
        ),
        call=writes(
            "POST",
            _SILENCES,
            lambda options: given(
                code=options.code,
                topic=options.topic,
                partition=options.partition,
                broker_id=options.broker_id,
                group_id=options.group_id,
                transactional_id=options.transactional_id,
                producer_id=options.producer_id,
                minutes=options.minutes,
            ),
        ),
    ),
    change(
        words=("silences", "end"),
        summary="End a silence now",
        examples=("silences end sil_Zk1lV0pCTEq4nY6mXw2v3A",),
        arguments=(argument("silence", metavar="SILENCE", help="its id"),),
        call=writes("DELETE", f"{_SILENCES}/{{silence}}"),
    ),
)
