"""springtide transactions …"""

from __future__ import annotations

from typing import Final

from springtide.cli.arguments import PARTITION, SEARCH, TOPIC, id_number, sort_by
from springtide.cli.call import get, reads, writes
from springtide.cli.command import Argument, Command, argument, change, listing, repeated
from springtide.cli.commands.partitions import PARTITION_PATH
from springtide.cli.tables import columns

_TRANSACTION: Final = "clusters/{cluster}/transactions/{transactional_id}"
_ID: Final = argument("transactional_id", metavar="TRANSACTIONAL_ID", help="as its producer has it")
#: Coordinators are asked meanwhile, each for some seconds.
_ANSWER_SECONDS_MAX: Final = 60.0


def _producer(*, required: bool) -> Argument:
    return argument(
        "--producer-id", type=id_number, required=required, metavar="ID", help="Kafka's id of the producer"
    )


COMMANDS = (
    listing(
        words=("transactions", "list"),
        summary="List transactions that are not over; those that hang come before the list",
        examples=(
            "transactions list",
            "transactions list --older-than 60",
            "transactions list --all --prefix payments- --sort=transactional_id",
        ),
        arguments=(
            argument("--all", action="store_true", help="also ids that have no transaction now"),
            repeated("--state", metavar="STATE", help="only ongoing, prepare_abort, …; may be repeated"),
            argument("--older-than", type=id_number, metavar="SECONDS", help="only those that are so old"),
            argument("--prefix", metavar="TEXT", help="only ids that begin with this"),
            SEARCH,
            _producer(required=False),
            sort_by("transactional_id", "age", "waiting_records", "producer_id", "state", default="-age"),
        ),
        call=lambda options: get(
            "clusters",
            options.cluster,
            "transactions",
            answer_s_max=_ANSWER_SECONDS_MAX,
            state=options.state or None,
            is_live=None if options.all or options.state else "true",
            age_ms_min=None if options.older_than is None else options.older_than * 1_000,
            prefix=options.prefix,
            search=options.search,
            producer_id=options.producer_id,
            sort=options.sort,
        ),
        about=("unanswered", "hanging"),
        columns=columns(
            "transaction=transactional_id state #age=age_ms:ms #timeout=timeout_ms:ms lingers "
            "#partitions=partitions_total #wait-for-it=waiting_records #producer=producer_id "
            "#epoch=producer_epoch client=client_id host=client_host"
        ),
    ),
    Command(
        words=("transactions", "describe"),
        summary="Look at a transaction: since when, in which partitions, who waits for it",
        examples=("transactions describe payments-1",),
        arguments=(_ID,),
        call=reads(_TRANSACTION, answer_s_max=_ANSWER_SECONDS_MAX),
    ),
    change(
        words=("transactions", "abort"),
        summary="Abort an open transaction, and fence its producer; --dry-run says what that frees",
        examples=(
            "transactions abort payments-1 --dry-run",
            "transactions abort payments-1 --reason 'its job was removed' --yes",
        ),
        question="Abort the open transaction of {transactional_id} in cluster {cluster}, and fence its "
        "producer?",
        arguments=(_ID,),
        call=writes("POST", _TRANSACTION, action="abort"),
    ),
    change(
        words=("transactions", "end"),
        summary="End a transaction that hangs in a partition: the alarm transaction_hangs names it",
        examples=(
            "transactions end orders 0 --producer-id 4000 --dry-run",
            "transactions end orders 0 --producer-id 4000 --reason 'no coordinator has it' --yes",
        ),
        question="End the hanging transaction of producer {producer_id} in {topic}-{partition} of cluster "
        "{cluster}, as aborted?",
        arguments=(TOPIC, PARTITION, _producer(required=True)),
        call=writes(
            "POST",
            PARTITION_PATH,
            lambda options: {"producer_id": options.producer_id},
            action="end-transaction",
        ),
    ),
)
