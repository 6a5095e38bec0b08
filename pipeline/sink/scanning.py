"""Reading back what a producer stored: the shell of log_trace.py.

Everything happens under one leader: it is asked before and after, and a scan across an election does not
count.
"""

from __future__ import annotations

import numpy as np

from pipeline.client.client import Client
from pipeline.client.errors import OffsetsGone
from pipeline.client.values import EARLIEST, LATEST, PartitionRange, TopicPartition
from pipeline.records.headers import scan_headers
from pipeline.sink.identity import ProducerIdentity
from pipeline.sink.log_trace import LogTrace, SequencedBatch
from pipeline.sink.steps import Scan, Scanned, Unsettled, scan_start


def scan_partition(
    client: Client, where: TopicPartition, identity: ProducerIdentity, scan: Scan
) -> Scanned | Unsettled:
    """Carries out a Scan. Raises ClientError, DamagedBatch."""
    before = client.list_offsets({where: LATEST})[where]
    earliest = client.list_offsets({where: EARLIEST})[where].offset
    end = client.epoch_ends({where: scan.leader_epoch})[where]
    start = scan_start(scan, end, log_start_offset=earliest)
    if earliest > start:
        return Scanned(
            before.leader_epoch,
            anomaly=f"the log begins at {earliest} now, behind {start} where the micro-batch began: "
            "retention or a deletion may have taken its records",
        )
    trace = LogTrace(identity)
    if start < before.offset:
        wanted = PartitionRange(where.topic, where.partition, start, before.offset)
        try:
            with client.fetch([wanted]) as stream:
                for fetched in stream:
                    trace.add(_batches_of(identity.producer_id, fetched.records, start))
        except OffsetsGone as error:
            return Unsettled(str(error))
    after = client.list_offsets({where: LATEST})[where]
    if after.leader_epoch != before.leader_epoch:
        return Unsettled("the leader changed while its log was read")
    return trace.summary(leader_epoch=after.leader_epoch)


def _batches_of(producer_id: int, records: memoryview, start: int) -> list[SequencedBatch]:
    headers = scan_headers(records)
    wanted = (headers.producer_id == producer_id) & ~headers.is_control & (headers.last_offset >= start)
    return [
        SequencedBatch(
            int(headers.producer_epoch[index]),
            int(headers.base_sequence[index]),
            int(headers.record_count[index]),
        )
        for index in np.flatnonzero(wanted)
    ]
