"""What one stock client writes, every other reads: same bytes, right offsets, timestamps and headers.

No Springtide code is in the clients. Each of them writes with every codec to a topic of its own, and all of
them read it back by assignment.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable

import pytest

from localcluster.cluster import LocalCluster
from tests.kit.stock_clients import CLIENTS, Client, Record

pytestmark = [
    pytest.mark.timeout(300),
    # The clients' own business; ours are still errors everywhere else.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_MS = 1_600_000_000_000
HAS_KCAT = shutil.which("kcat") is not None


@pytest.fixture(autouse=True)
def _kcat_is_there_where_it_must_be() -> None:
    assert HAS_KCAT or not os.environ.get("CI_REQUIRED"), "kcat is missing, and CI must not skip it"


def with_kcat_skipped(client: Client) -> object:
    marks = (
        [pytest.mark.skipif(not HAS_KCAT, reason="kcat is not installed")] if client.name == "kcat" else []
    )
    return pytest.param(client, id=client.name, marks=marks)


def any_records() -> list[Record]:
    """Nulls, empties, every byte, text, large and small, and headers of all sorts, under explicit
    timestamps."""
    random_bytes = random.Random(7).randbytes
    bodies: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
        (b"key", b"value", ()),
        (None, b"no key", ()),
        (b"no value", None, ()),
        (None, None, (("only", b"a header"),)),
        (b"", b"", ()),
        (bytes(range(256)), bytes(range(255, -1, -1)), ()),
        ("ключ".encode(), "価値 🌊".encode(), (("заголовок", "значение".encode()),)),
        (b"headers", b"twice", (("h", b"1"), ("h", b"2"), ("null", None), ("empty", b""))),
        (b"compressible", b"spring tide " * 8_000, ()),
        (b"incompressible", random_bytes(100_000), ()),
        *((b"%d" % number, random_bytes(number), ()) for number in range(1, 200, 7)),
    ]
    return [
        Record(key, value, headers, TIMESTAMP_MS + number)
        for number, (key, value, headers) in enumerate(bodies)
    ]


def records_for_kcat() -> list[Record]:
    """What kcat's command line can express."""
    headers = (("source", b"kcat"), ("run", b"7"))
    bodies = [(b"key", b"value"), (None, b"no key"), (b"no value", None), (b"long", b"spring tide " * 8_000)]
    bodies += [(b"%d" % number, b"x" * number) for number in range(1, 200, 7)]
    return [Record(key, value, headers) for key, value in bodies]


def as_kcat_prints(record: Record) -> Record:
    """kcat prints an empty header like a null one."""
    headers = tuple((name, value or None) for name, value in record.headers)
    return Record(record.key, record.value, headers, record.timestamp_ms)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("producer", [with_kcat_skipped(client) for client in CLIENTS])
def test_what_one_client_writes_every_client_reads(
    running_cluster: LocalCluster, make_topic: Callable[..., str], producer: Client, codec: str
) -> None:
    topic = make_topic(f"{producer.name}-{codec}")
    bootstrap = running_cluster.bootstrap_servers
    records = any_records() if producer.sets_timestamps else records_for_kcat()
    records = [record for record in records if producer.can_write(record)]
    written_from_ms = time.time_ns() // 1_000_000
    offsets = producer.produce(bootstrap, topic, records, compression=codec)
    written_until_ms = time.time_ns() // 1_000_000

    assert offsets is None or offsets == list(range(len(records)))
    for reader in CLIENTS:
        if reader.name == "kcat" and not HAS_KCAT:
            continue
        stored = reader.read(bootstrap, topic, count=len(records))
        assert [item.offset for item in stored] == list(range(len(records))), reader.name
        for item, sent in zip(stored, records, strict=True):
            got, timestamp_ms = item.record, item.record.timestamp_ms
            assert timestamp_ms is not None
            if sent.timestamp_ms is None:
                assert written_from_ms <= timestamp_ms <= written_until_ms, reader.name
                sent = Record(sent.key, sent.value, sent.headers, timestamp_ms)  # noqa: PLW2901
            if reader.name == "kcat":
                got, sent = as_kcat_prints(got), as_kcat_prints(sent)  # noqa: PLW2901
            assert got == sent, reader.name
