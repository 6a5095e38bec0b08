"""The cases' names and choices, and reading what the kernel says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.cases import CASES, NoSuchCase, select_cases
from bench.kafka import KafkaNotUsable, find_version
from bench.processor_time import busy_seconds_of_stat, cpu_seconds_of_stat
from bench.protocol import encode_produced_batch
from dataplane.shell.config import BrokerConfig

TICK = os.sysconf("SC_CLK_TCK")


def test_every_batch_is_one_that_brokers_take_by_default() -> None:
    largest = BrokerConfig().number("message.max.bytes")
    for case in CASES:
        batch = encode_produced_batch(
            batch_records=case.batch_records, record_bytes=case.record_bytes, timestamp_ms=0
        )
        assert len(batch) <= largest, case.name


def test_a_pattern_that_fits_nothing_is_an_error_that_lists_the_names() -> None:
    with pytest.raises(NoSuchCase, match="produce-all-100b-1x1"):
        select_cases(["produce-all-100b-1x1", "prodce"], is_quick=False)


def test_processor_time_is_read_past_a_command_name_with_brackets() -> None:
    rest = " ".join(["S", *["0"] * 10, str(3 * TICK), str(2 * TICK), *["0"] * 30])
    assert cpu_seconds_of_stat(f"17 (a) b) c) {rest}") == 5.0


def test_idle_waiting_and_stolen_time_is_not_busy_and_guests_are_not_counted_twice() -> None:
    ticks = [1, 2, 3, 100, 100, 4, 5, 100, 50, 50]
    assert busy_seconds_of_stat(f"cpu  {' '.join(str(value * TICK) for value in ticks)}\ncpu0 1") == 15.0


def test_the_release_is_read_from_the_jars(tmp_path: Path) -> None:
    with pytest.raises(KafkaNotUsable, match="folder above libs"):
        find_version(tmp_path)
    libs = tmp_path / "libs"
    libs.mkdir()
    (libs / "kafka-clients-3.2.3.jar").touch()
    with pytest.raises(KafkaNotUsable, match=r"3\.3 or later"):
        find_version(tmp_path)
    (libs / "kafka-clients-3.2.3.jar").rename(libs / "kafka-clients-4.0.0.jar")
    assert find_version(tmp_path) == "4.0.0"
