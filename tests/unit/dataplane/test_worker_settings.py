"""What each worker of a broker gets of the broker's command line and configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataplane.__main__ import _parser, _settings, main
from dataplane.broker import BrokerSettings
from dataplane.core.workers import WorkersRefused
from dataplane.shell.config import BROKER_KEYS
from dataplane.storage.tail_cache import BROKER_BYTES_MAX
from dataplane.supervisor import EXIT_DIRECTORY_REFUSED
from dataplane.worker_settings import SHARED_KEYS
from springtide.node.command_line import EXIT_USAGE, CommandLineError
from springtide.node.listeners import HostPort

SERVE = ("serve", "--cluster", "prod", "--broker-id", "5", "--controllers", "http://c1:1", "--data-dir", "d")
TWO_LISTENERS = (
    *("--config", "listeners=INTERNAL://127.0.0.1:9092,CLIENTS://127.0.0.1:9192"),
    *("--config", "advertised.listeners=CLIENTS://kafka.example.com:9000"),
    *("--config", "listener.security.protocol.map=INTERNAL:PLAINTEXT,CLIENTS:PLAINTEXT"),
    *("--config", "inter.broker.listener.name=INTERNAL"),
    *("--metrics-listen", "127.0.0.1:9292"),
)


def settings(*flags: str) -> BrokerSettings:
    return _settings(_parser().parse_args([*SERVE, *flags]))


def worker(number: int, *flags: str, workers: int = 4) -> BrokerSettings:
    return settings(*flags, "--workers", str(workers), "--worker", str(number))


def test_a_broker_with_one_worker_is_a_broker_as_it_always_was() -> None:
    assert settings("--workers", "1", *TWO_LISTENERS) == settings(*TWO_LISTENERS)
    assert settings().worker_of is None


def test_each_worker_has_the_brokers_settings_with_an_id_and_ports_of_its_own() -> None:
    of_worker = worker(2, *TWO_LISTENERS)
    assert (of_worker.broker_id, of_worker.worker_of) == (2_000_005, 5)
    internal, clients = of_worker.listeners.all
    assert (internal.bind, internal.advertised) == (HostPort("127.0.0.1", 9094), None)
    assert clients.bind == HostPort("127.0.0.1", 9194)
    assert clients.advertised == HostPort("kafka.example.com", 9002)
    assert of_worker.listeners.inter_broker == internal
    assert of_worker.metrics is not None
    assert of_worker.metrics.bind == HostPort("127.0.0.1", 9294)
    assert (of_worker.cluster, of_worker.controllers) == ("prod", ("http://c1:1",))


def test_worker_0_keeps_the_brokers_id_and_ports() -> None:
    alone, first = settings(*TWO_LISTENERS), worker(0, *TWO_LISTENERS)
    assert (first.broker_id, first.listeners, first.metrics) == (5, alone.listeners, alone.metrics)
    assert first.worker_of == 5


def test_what_a_host_has_once_is_shared_and_the_rest_is_each_workers() -> None:
    alone, of_worker = settings().config, worker(1)
    assert of_worker.tail_bytes_max == BROKER_BYTES_MAX // 4
    assert {key for key in BROKER_KEYS if of_worker.config.text(key) != alone.text(key)} == set(SHARED_KEYS)
    for key in SHARED_KEYS:
        assert of_worker.config.number(key) == alone.number(key) // 4
    assert worker(1, "--config", "log.scrub.bytes.per.second=0").config.number(SHARED_KEYS[1]) == 0


def test_ports_that_collide_are_refused_before_anything_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--listen", "127.0.0.1:9092", "--metrics-listen", "127.0.0.1:9093", "--workers", "2")
    with pytest.raises(WorkersRefused):
        settings(*flags)
    assert main([*SERVE, *flags, "--data-dir", str(tmp_path / "data")]) == EXIT_USAGE
    assert "--listen of worker 1 and --metrics-listen of worker 0" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("flags", [("--worker", "0"), ("--workers", "2", "--worker", "2")])
def test_which_worker_it_is_is_not_said_by_hand(flags: tuple[str, ...]) -> None:
    with pytest.raises(CommandLineError, match="not by hand"):
        settings(*flags)


@pytest.mark.parametrize("workers", [1, 2])
def test_fewer_workers_than_folders_with_data_are_refused(
    workers: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replica = tmp_path / "worker-2" / "orders-0.AAAAAAAAAAAAAAAAAAAAAA"
    replica.mkdir(parents=True)
    (replica / "partition.json").touch()
    assert main([*SERVE, "--workers", str(workers), "--data-dir", str(tmp_path)]) == EXIT_USAGE
    assert "start with --workers 3, drain the broker" in capsys.readouterr().err


def test_a_directory_that_is_refused_has_an_exit_status_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    assert main([*SERVE, "--data-dir", str(tmp_path)]) == EXIT_DIRECTORY_REFUSED
