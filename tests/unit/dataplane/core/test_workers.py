"""What differs between the workers of a broker, and which numbers of workers are refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.core.workers import (
    PORT_MAX,
    RESTART_MS_MAX,
    RESTART_MS_MIN,
    Endpoint,
    WorkersRefused,
    check_folders,
    check_workers,
    folder_number,
    restart_after_ms,
    worker_directory,
    worker_port,
    worker_share,
)
from springtide.contract.session import WORKER_ID_STEP, WORKERS_MAX, worker_id

COUNTS = st.integers(2, WORKERS_MAX)


def bound(port: int, host: str = "127.0.0.1", name: str = "--listen") -> Endpoint:
    return Endpoint(name=name, host=host, port=port)


def advertised(port: int, host: str = "store1", name: str = "what is advertised of --listen") -> Endpoint:
    return Endpoint(name=name, host=host, port=port, is_advertised=True)


def test_worker_0_is_the_broker_as_it_is_alone() -> None:
    assert (worker_id(5, 0), worker_port(9092, 0), worker_directory("/data", 0)) == (5, 9092, "/data")
    assert (worker_id(5, 2), worker_port(9092, 2), worker_directory("/data", 2)) == (
        2_000_005,
        9094,
        "/data/worker-2",
    )


def test_the_kernel_chooses_the_port_of_each_worker_where_it_chooses_the_brokers() -> None:
    assert [worker_port(0, number) for number in range(3)] == [0, 0, 0]
    check_workers(1, 3, [bound(0), bound(0, name="--metrics-listen")])


@given(st.integers(1, WORKERS_MAX - 1))
def test_a_workers_folder_says_its_number(number: int) -> None:
    assert folder_number(worker_directory("/data", number).rpartition("/")[2]) == number


@pytest.mark.parametrize(
    "name",
    [
        *("worker-0", "worker-01", "worker-1024", "worker-", "worker--1", "worker-1\n", "Worker-1"),
        "worker-1.AAAAAAAAAAAAAAAAAAAAAA",  # partition 1 of a topic called worker
        *("lost+found", "quarantine"),
    ],
)
def test_other_names_are_no_workers_folders(name: str) -> None:
    assert folder_number(name) is None


@pytest.mark.parametrize("workers", [-1, 0, WORKERS_MAX + 1])
def test_a_number_of_workers_that_no_broker_has_is_refused(workers: int) -> None:
    with pytest.raises(WorkersRefused, match="--workers takes a number from 1 to 1,024"):
        check_workers(1, workers, [])


def test_an_id_that_could_be_a_workers_is_refused_with_workers_only() -> None:
    check_workers(WORKER_ID_STEP - 1, WORKERS_MAX, [])
    check_workers(WORKER_ID_STEP, 1, [])
    with pytest.raises(WorkersRefused, match="needs a --broker-id below 1,000,000"):
        check_workers(WORKER_ID_STEP, 2, [])


def test_ports_have_an_end() -> None:
    check_workers(1, 2, [bound(PORT_MAX - 1)])
    check_workers(1, 1, [bound(PORT_MAX)])
    with pytest.raises(WorkersRefused, match="--listen has port 65535, and worker 1 would need 65536"):
        check_workers(1, 2, [bound(PORT_MAX)])


@pytest.mark.parametrize("hosts", [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "")])
def test_ports_of_two_workers_that_collide_are_refused_and_both_are_named(hosts: tuple[str, str]) -> None:
    low, high = bound(9092, hosts[0]), bound(9094, hosts[1], name="--metrics-listen")
    for order in ([low, high], [high, low]):
        check_workers(1, 2, order)
        with pytest.raises(WorkersRefused, match=r"--listen of worker 2 and --metrics-listen of worker 0"):
            check_workers(1, 3, order)


def test_what_clients_are_told_is_apart_from_what_is_bound() -> None:
    check_workers(1, 3, [bound(9092), bound(9093, "10.0.0.1"), advertised(9092), advertised(9093, "store2")])
    check_workers(1, 3, [advertised(9092), advertised(9092)])  # Allowed without workers, too.
    check_workers(1, 3, [advertised(9092, "0.0.0.0"), advertised(9093, "store2")])
    with pytest.raises(WorkersRefused, match="would both be told clients as Store1:9093"):
        check_workers(1, 2, [advertised(9092), advertised(9093, "Store1", name="what is advertised of B")])


@given(COUNTS, st.lists(st.integers(0, PORT_MAX), max_size=6), st.integers(1, 100))
def test_what_is_let_pass_gives_each_worker_ports_of_its_own(
    workers: int, ports: Sequence[int], broker_id: int
) -> None:
    try:
        check_workers(broker_id, workers, [bound(port) for port in ports])
    except WorkersRefused:
        chosen = [port for port in ports if port]
        taken = [worker_port(port, number) for port in chosen for number in range(workers)]
        assert len(set(taken)) < len(taken) or max(taken) > PORT_MAX
    else:
        taken = [worker_port(port, number) for port in ports if port for number in range(workers)]
        assert len(set(taken)) == len(taken)
        assert max(taken, default=0) <= PORT_MAX


@given(st.integers(0, 2**40), COUNTS)
def test_shares_make_up_the_whole_and_no_worker_of_something_gets_nothing(total: int, workers: int) -> None:
    share = worker_share(total, workers)
    assert total <= share * workers < total + workers
    assert (share == 0) is (total == 0)


def test_folders_with_data_of_workers_that_would_not_be_started_are_refused_with_what_to_do() -> None:
    check_folders("/data", [1, 2], 3)
    check_folders("/data", [], 1)
    with pytest.raises(WorkersRefused) as refused:
        check_folders("/data", [2, 1], 2)
    assert str(refused.value).startswith("/data/worker-2 holds data of worker 2, which --workers 2 does not")
    assert "start with --workers 3, drain the broker and then lower the number" in str(refused.value)


def test_a_worker_that_dies_again_and_again_waits_longer_up_to_a_bound() -> None:
    waits = [0]
    for _ in range(7):
        waits.append(restart_after_ms(waits[-1], 100))
    assert waits[1:] == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
    assert restart_after_ms(RESTART_MS_MAX, RESTART_MS_MAX) == RESTART_MS_MIN
