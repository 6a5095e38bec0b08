"""What `coordinator serve` makes of its command line."""

from __future__ import annotations

import pytest

from coordinator.__main__ import _parser, _settings, main
from coordinator.config import COORDINATOR_KEYS, CoordinatorConfig
from coordinator.core.groups.options import GroupOptions, MigrationPolicy
from coordinator.core.transactions.options import TransactionOptions
from coordinator.process import CoordinatorSettings
from springtide.node.command_line import CommandLineError
from springtide.node.config import NodeConfigError
from springtide.node.listeners import HostPort, ListenerSettings, ListenersSettings

SERVE = ("serve", "--cluster", "prod", "--coordinator-id", "1001", "--controllers", "http://c1:1,http://c2:2")


def settings(*flags: str) -> CoordinatorSettings:
    return _settings(_parser().parse_args([*SERVE, *flags]))


def test_the_options_of_any_process_that_serves_clients_are_taken() -> None:
    told = settings(
        "--listen", "[::1]:9", "--advertise", "desk1:10", "--metrics-listen", "h:11", "--rack", "r"
    )
    assert (told.coordinator_id, told.cluster, told.rack) == (1001, "prod", "r")
    assert told.controllers == ("http://c1:1", "http://c2:2")
    assert told.listeners == ListenersSettings.one("::1", 9, advertised=HostPort("desk1", 10))
    assert told.metrics == ListenerSettings(name="METRICS", bind=HostPort("h", 11))
    with pytest.raises(CommandLineError, match="--coordinator-id"):
        settings("--coordinator-id", "-1")


def test_the_defaults_of_the_keys_are_those_of_the_options() -> None:
    assert settings().config.group_options == GroupOptions()
    parsed = CoordinatorConfig.parse((name, key.default) for name, key in COORDINATOR_KEYS.items())
    assert parsed.group_options == GroupOptions()
    assert parsed.transaction_options == TransactionOptions()


def test_kafkas_names_set_the_groups_options() -> None:
    names = {
        "group.min.session.timeout.ms": "1",
        "group.max.session.timeout.ms": "2",
        "group.initial.rebalance.delay.ms": "3",
        "group.max.size": "4",
        "group.consumer.migration.policy": "UPGRADE",
        "offset.metadata.max.bytes": "5",
        "offsets.retention.minutes": "6",
        "offsets.retention.check.interval.ms": "7",
    }
    told = settings(*(flag for name, value in names.items() for flag in ("--config", f"{name}={value}")))
    assert told.config.group_options == GroupOptions(
        session_timeout_ms_min=1,
        session_timeout_ms_max=2,
        initial_delay_ms=3,
        size_max=4,
        migration_policy=MigrationPolicy.UPGRADE,
        metadata_max=5,
        retention_ms=360_000,
        retention_check_ms=7,
    )


def test_kafkas_names_set_the_options_of_transactions() -> None:
    names = {
        "transaction.max.timeout.ms": "1",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2",
        "transactional.id.expiration.ms": "3",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "4",
    }
    told = settings(*(flag for name, value in names.items() for flag in ("--config", f"{name}={value}")))
    assert told.config.transaction_options == TransactionOptions(
        timeout_ms_max=1, timeout_check_ms=2, expiration_ms=3, expiration_check_ms=4
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("transaction.state.log.min.isr", "pinned"),
        ("offsets.topic.num.partitions", "pinned"),
        ("node.id", "--coordinator-id"),
        ("group.max.sizes", "'group.max.size'"),
        ("log.segment.bytes", "coordinator serve --help"),
    ],
)
def test_a_key_that_does_nothing_here_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(NodeConfigError, match="unknown configuration key") as refused:
        CoordinatorConfig.parse([(name, "1")])
    assert hint in str(refused.value)


def test_a_command_line_that_cant_be_used_is_told_and_nothing_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*SERVE, "--config", "group.max.size=0"]) == 2
    assert "group.max.size=0: must be between" in capsys.readouterr().err
    assert main([*SERVE, "--config", "group.consumer.migration.policy=both"]) == 2
    assert "must be bidirectional or upgrade or downgrade or disabled" in capsys.readouterr().err
