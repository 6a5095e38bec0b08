"""The header of a merged record: where it stood before it was cut off. Pure.

    springtide.salvage   {"offset":17,"leaderEpoch":3,"broker":1}

Topic and partition are the record's own. Contents are compared without this header, so a merged record equals
the one that was cut off and is not merged again, also if it is cut off a second time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.records.fields import HEADERS_TYPE
from pipeline.records.varints import Bools, Int64s

HEADER = "springtide.salvage"


def marked(headers: pa.Array) -> Bools:
    """Return which rows have the mark. `headers` as decoded: a list of (key, value), or null."""
    count = len(headers)
    lengths: Int64s = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    flat = headers.flatten()
    has: Bools = np.zeros(count, np.bool_)
    if len(flat):
        is_mark = pc.fill_null(pc.equal(pc.struct_field(flat, "key"), HEADER), False)
        rows = np.repeat(np.arange(count), lengths)
        has[rows[is_mark.to_numpy(zero_copy_only=False)]] = True
    return has


def without_marks(headers: pa.Array) -> pa.Array:
    """Return the headers without marks. A row without headers is null."""
    lengths: Int64s = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    flat = headers.flatten()
    if not len(flat):
        return headers
    is_kept = pc.fill_null(pc.not_equal(pc.struct_field(flat, "key"), HEADER), True)
    rows = np.repeat(np.arange(len(headers)), lengths)[is_kept.to_numpy(zero_copy_only=False)]
    return _lists(flat.filter(is_kept), np.bincount(rows, minlength=len(headers)))


def with_marks(headers: pa.Array, offsets: Int64s, leader_epochs: Int64s, *, broker_id: int) -> pa.Array:
    """Return the headers with a mark at the end of each row. A row that has a mark keeps it: it tells the
    first place."""
    count = len(headers)
    lengths: Int64s = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    is_new = np.flatnonzero(~marked(headers))
    values = [
        b'{"offset":%d,"leaderEpoch":%d,"broker":%d}' % (offset, epoch, broker_id)
        for offset, epoch in zip(offsets[is_new].tolist(), leader_epochs[is_new].tolist(), strict=True)
    ]
    flat = headers.flatten()
    keys = pa.repeat(pa.scalar(HEADER, pa.string()), len(values))
    new = pa.StructArray.from_arrays(
        [keys, pa.array(values, pa.binary())], fields=list(HEADERS_TYPE.value_type)
    )
    rows = np.concatenate((np.repeat(np.arange(count), lengths), is_new))
    order = np.argsort(rows, kind="stable")  # the new ones stand last, so behind their row's others
    both = pa.concat_arrays([flat.cast(HEADERS_TYPE.value_type), new])
    return _lists(both.take(pa.array(order)), np.bincount(rows, minlength=count))


def _lists(flat: pa.Array, lengths: Int64s) -> pa.Array:
    """Return lists of these lengths; an empty list is null, as records without headers are decoded."""
    ends = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=ends[1:])
    is_null = pa.array(lengths == 0)
    return pa.ListArray.from_arrays(pa.array(ends), flat, type=HEADERS_TYPE, mask=is_null)
