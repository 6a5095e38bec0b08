"""What a registration request proves of a broker's disks, and what is wrong with one."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.options import ControllerOptions
from controller.core.records import BrokerRegistration
from controller.core.registration import (
    LOG_DIRS_MAX,
    TEXT_LENGTH_MAX,
    check_registration,
    continues_chain,
    follows,
    proves_end,
    vouches_for_seats,
)
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.session import (
    LISTENERS_MAX,
    UNANSWERED_INCARNATIONS_MAX,
    ListenerAddress,
    RegisterRequest,
    ShutdownKind,
)
from tests.kit.controller.core_cluster import CLUSTER_ID, Cluster

BEFORE = BrokerRegistration(
    broker_id=1,
    broker_epoch=BrokerEpoch(7),
    incarnation_id="1-a",
    host="store1",
    port=9092,
    log_dir_ids=("x", "y"),
    chain_epoch=BrokerEpoch(3),
)
REQUEST = RegisterRequest(
    broker_id=1,
    incarnation_id="1-b",
    host="store1",
    port=9092,
    log_dir_ids=("x", "y"),
    last_shutdown=ShutdownKind.CLEAN,
    previous_broker_epoch=BrokerEpoch(7),
)

# --- what it proves -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "request_", "is_next"),
    [
        ({}, {}, True),
        ({}, {"previous_broker_epoch": 6}, False),
        ({}, {"previous_broker_epoch": 8}, False),
        ({}, {"previous_broker_epoch": -1, "unanswered_incarnation_ids": ("1-a",)}, True),
        ({}, {"previous_broker_epoch": -1, "unanswered_incarnation_ids": ("1-c",)}, False),
        # One that a recovery gave its epoch, and that died before it was unfenced under that.
        ({"epoch_before_recovery": 5}, {"previous_broker_epoch": 5}, True),
        ({"epoch_before_recovery": 5}, {"previous_broker_epoch": 6}, False),
        ({"epoch_before_recovery": 5, "fenced": False}, {"previous_broker_epoch": 5}, False),
        # Directories that never served any are not those of one that knew no epoch.
        ({"epoch_before_recovery": -1}, {"previous_broker_epoch": -1}, False),
    ],
)
def test_whether_directories_last_served_the_registered_process(
    before: dict[str, object], request_: dict[str, object], is_next: bool
) -> None:
    known, asked = msgspec.structs.replace(BEFORE, **before), msgspec.structs.replace(REQUEST, **request_)
    assert follows(known, asked) is is_next
    assert continues_chain(known, asked) is is_next


@pytest.mark.parametrize(
    ("before", "dirs", "is_chain"),
    [
        ({"chain_epoch": 0}, ("x", "y"), True),
        ({"chain_epoch": -1}, ("x", "y"), False),
        ({}, ("y", "x"), True),
        ({}, ("x",), False),
        ({}, ("x", "y", "z"), False),
        ({"offline_log_dir_ids": ("z",)}, ("x", "y"), False),
    ],
)
def test_a_chain_goes_on_with_the_very_directories_only(
    before: dict[str, object], dirs: tuple[str, ...], is_chain: bool
) -> None:
    known = msgspec.structs.replace(BEFORE, **before)
    assert continues_chain(known, msgspec.structs.replace(REQUEST, log_dir_ids=dirs)) is is_chain


@pytest.mark.parametrize(
    ("request_", "is_end"),
    [
        ({}, True),
        ({"log_dir_ids": ("x", "y", "z")}, True),
        ({"log_dir_ids": ("x",)}, False),
        ({"last_shutdown": ShutdownKind.PROCESS_CRASH}, False),
        ({"previous_broker_epoch": 6}, False),
        ({"previous_broker_epoch": 8}, False),
    ],
)
def test_a_clean_marker_of_the_registered_epoch_proves_that_its_process_has_ended(
    request_: dict[str, object], is_end: bool
) -> None:
    assert proves_end(BEFORE, msgspec.structs.replace(REQUEST, **request_)) is is_end


@pytest.mark.parametrize(
    ("before", "request_", "vouches"),
    [
        ({}, {}, True),
        ({}, {"last_shutdown": ShutdownKind.PROCESS_CRASH}, True),
        ({}, {"last_shutdown": ShutdownKind.MACHINE_CRASH}, False),
        ({}, {"previous_broker_epoch": 6}, False),
        ({}, {"log_dir_ids": ("x",)}, False),
        ({}, {"log_dir_ids": ("x", "y", "z")}, True),
        ({}, {"log_dir_ids": ("x",), "offline_log_dir_ids": ("y",)}, False),
        # One that had failed may stay away, but proves nothing by working again.
        ({"offline_log_dir_ids": ("y",)}, {"log_dir_ids": ("x",)}, True),
        ({"offline_log_dir_ids": ("y",)}, {}, False),
    ],
)
def test_who_has_all_that_was_usable_and_stopped_without_a_loss_keeps_its_seats(
    before: dict[str, object], request_: dict[str, object], vouches: bool
) -> None:
    known, asked = msgspec.structs.replace(BEFORE, **before), msgspec.structs.replace(REQUEST, **request_)
    assert vouches_for_seats(known, asked) is vouches


# --- what is wrong with it ------------------------------------------------------------------------


def listeners(count: int, port: int = 1) -> dict[str, ListenerAddress]:
    return {f"L{number}": ListenerAddress(host="store1", port=port) for number in range(count)}


def names(count: int) -> tuple[str, ...]:
    return tuple(f"name-{number}" for number in range(count))


LONG = "x" * TEXT_LENGTH_MAX
PORT = "broker_id or port out of range"
LISTENER = f"a listener's port is out of range, or over {LISTENERS_MAX}"
TEXT = f"a text is empty or longer than {TEXT_LENGTH_MAX}"
DIRS = f"a broker has 1 to {LOG_DIRS_MAX} log directories, no two with one id"


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"broker_id": 0}, ""),
        ({"broker_id": -1}, PORT),
        ({"port": 1}, ""),
        ({"port": 65_535}, ""),
        ({"port": 0}, PORT),
        ({"port": 65_536}, PORT),
        ({"listeners": listeners(LISTENERS_MAX)}, ""),
        ({"listeners": listeners(LISTENERS_MAX + 1)}, LISTENER),
        ({"listeners": listeners(1, 65_535)}, ""),
        ({"listeners": listeners(1, 65_536)}, LISTENER),
        ({"listeners": listeners(1, 0)}, LISTENER),
        ({"host": LONG}, ""),
        ({"host": LONG + "x"}, TEXT),
        ({"host": ""}, TEXT),
        ({"rack": LONG}, ""),
        ({"rack": LONG + "x"}, TEXT),
        ({"version": LONG}, ""),
        ({"version": LONG + "x"}, TEXT),
        ({"unanswered_incarnation_ids": names(UNANSWERED_INCARNATIONS_MAX)}, ""),
        (
            {"unanswered_incarnation_ids": names(UNANSWERED_INCARNATIONS_MAX + 1)},
            f"more than {UNANSWERED_INCARNATIONS_MAX} unanswered incarnations",
        ),
        ({"log_dir_ids": names(LOG_DIRS_MAX)}, ""),
        ({"log_dir_ids": names(LOG_DIRS_MAX + 1)}, DIRS),
        ({"log_dir_ids": ()}, DIRS),
        ({"log_dir_ids": ("x", "x")}, DIRS),
        ({"offline_log_dir_ids": ("x",)}, DIRS),
        ({"cluster_id": CLUSTER_ID}, ""),
    ],
)
def test_a_request_is_refused_for_what_is_out_of_bounds(fields: dict[str, object], fault: str) -> None:
    request = msgspec.structs.replace(REQUEST, **fields)
    error = ControllerError.INVALID_REQUEST if fault else ControllerError.NONE
    found = check_registration(Cluster(brokers=(2,)).image, request, ControllerOptions())
    assert found == (error, fault)


@pytest.mark.parametrize(
    ("broker_id", "brokers_max", "fault"),
    [(3, 2, "the cluster has 2 brokers already"), (3, 3, ""), (2, 2, ""), (2, 1, "")],
)
def test_a_cluster_takes_so_many_brokers_and_those_it_has(
    broker_id: int, brokers_max: int, fault: str
) -> None:
    image = Cluster(brokers=(1, 2)).image
    request = msgspec.structs.replace(REQUEST, broker_id=broker_id)
    assert check_registration(image, request, ControllerOptions(brokers_max=brokers_max))[1] == fault
