"""Reading back what a producer stored: the shell of log_trace.py and stored_rows.py. The leader is asked
before and after: a scan across an election does not count."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from crc32c import crc32c

from pipeline.client.client import Client
from pipeline.client.errors import OffsetsGone
from pipeline.client.values import EARLIEST, LATEST, PartitionRange, TopicPartition
from pipeline.records.decode import decode_records
from pipeline.records.headers import BatchHeaders, scan_headers
from pipeline.records.varints import Int64s
from pipeline.sink.identity import ProducerIdentity
from pipeline.sink.log_trace import LogTrace, TracedBatch
from pipeline.sink.steps import NoUsableAnswer, Scan, Scanned, is_whole, scan_start
from pipeline.sink.stored_rows import ReadBack
from springtide.wire.record_batch import HEADER_BYTES


def scan_partition(
    client: Client,
    where: TopicPartition,
    identity: ProducerIdentity,
    scan: Scan,
    read_back: ReadBack | None = None,
    *,
    topic_ids: Mapping[str, str] = MappingProxyType({}),
) -> Scanned | NoUsableAnswer:
    """Carry out a Scan; `read_back` gets the records of the identity. `topic_ids`: see Client.fetch. Raises
    ClientError, DamagedBatch, TooManyStored."""
    before = client.list_offsets({where: LATEST})[where]
    earliest = client.list_offsets({where: EARLIEST})[where].offset
    known = scan.known
    if known is not None and is_whole(known, client.epoch_ends({where: known.leader_epoch})[where]):
        start, trace = known.offset, LogTrace(identity, after_sequence=known.sequence)
    else:
        end = client.epoch_ends({where: scan.leader_epoch})[where]
        start, trace = scan_start(scan, end, log_start_offset=earliest), LogTrace(identity)
    if earliest > start:
        return Scanned(
            before.leader_epoch,
            anomaly=f"the log begins at {earliest} now, behind {start} where the micro-batch began: "
            "retention or a deletion may have taken its records, and what was stored is not known. Keep "
            "records for longer than a micro-batch takes; to continue, start with another checkpoint",
        )
    if start < before.offset:
        wanted = PartitionRange(where.topic, where.partition, start, before.offset)
        try:
            with client.fetch([wanted], topic_ids=topic_ids) as stream:
                for fetched in stream:
                    headers = scan_headers(fetched.records)
                    ours = _batches_of(identity.producer_id, headers, wanted)
                    trace.add(_sequenced(fetched.records, headers, ours))
                    if read_back is not None:
                        is_now = headers.producer_epoch[ours] == identity.producer_epoch
                        _read(fetched.records, headers, ours[is_now], read_back)
        except OffsetsGone as error:
            return NoUsableAnswer(str(error))
    after = client.list_offsets({where: LATEST})[where]
    if after.leader_epoch != before.leader_epoch:
        return NoUsableAnswer("the leader changed while its log was read")
    return trace.summary(leader_epoch=after.leader_epoch, end_offset=max(start, before.offset))


def _batches_of(producer_id: int, headers: BatchHeaders, within: PartitionRange) -> Int64s:
    is_within = (headers.last_offset >= within.start_offset) & (headers.base_offset < within.end_offset)
    return np.flatnonzero(is_within & (headers.producer_id == producer_id) & ~headers.is_control)


def _sequenced(records: memoryview, headers: BatchHeaders, ours: Int64s) -> list[TracedBatch]:
    return [
        TracedBatch(
            int(headers.producer_epoch[index]),
            int(headers.base_sequence[index]),
            int(headers.record_count[index]),
            crc32c(_batch(records, headers, index)[HEADER_BYTES:]),
        )
        for index in ours.tolist()
    ]


def _batch(records: memoryview, headers: BatchHeaders, index: int) -> memoryview:
    first = int(headers.position[index])
    return records[first : first + int(headers.size_bytes[index])]


def _read(records: memoryview, headers: BatchHeaders, ours: Int64s, read_back: ReadBack) -> None:
    """Decode neighbouring batches together, so a large fetch takes few steps."""
    for run in np.split(ours, np.flatnonzero(np.diff(ours) > 1) + 1):
        if len(run):
            first, last = int(run[0]), int(run[-1])
            end = int(headers.position[last]) + int(headers.size_bytes[last])
            data = records[int(headers.position[first]) : end]
            for rows in decode_records(data, topic="", partition=0, columns=ReadBack.COLUMNS):
                read_back.add(rows)
