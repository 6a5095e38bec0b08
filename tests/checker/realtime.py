"""Order across clients: what was over before something began comes before it.

Two operations that overlap may have happened in either order, and equal times overlap: only an operation that
returned strictly before another was invoked binds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .history import NO_OFFSET, Function, Key, Outcome
from .index import Index
from .verdict import Findings, Kind, show_key


class Bound(NamedTuple):
    """From `time_ns` on, `offset` is the least that may be told."""

    time_ns: int
    offset: int
    by: int


class Claim(NamedTuple):
    """Something told `offset`, by an operation that was invoked at `time_ns`."""

    time_ns: int
    offset: int
    by: int


def find_claims_below(bounds: Sequence[Bound], claims: Sequence[Claim]) -> Iterator[tuple[Claim, Bound]]:
    """Each claim that is lower than the highest bound from strictly before it, with that bound."""
    ordered = sorted(bounds)
    at, highest = 0, Bound(-1, NO_OFFSET, -1)
    for claim in sorted(claims):
        while at < len(ordered) and ordered[at].time_ns < claim.time_ns:
            if ordered[at].offset > highest.offset:
                highest = ordered[at]
            at += 1
        if claim.offset < highest.offset:
            yield claim, highest


def check_real_time_order(index: Index, findings: Findings) -> None:
    """A record is written behind everything that was acknowledged or read before its send began (the rule of
    Redpanda's chaos tests): a leader that appends where others have read already breaks it."""
    bounds: dict[Key, list[Bound]] = {}
    claims: dict[Key, list[Claim]] = {}
    for number, operation in enumerate(index.operations):
        if operation.key is None or not operation.items:
            continue
        is_ok_send = operation.f is Function.SEND and operation.type is Outcome.OK
        if is_ok_send or operation.f is Function.POLL:
            highest = max(operation.items)[0]
            if highest != NO_OFFSET:
                bounds.setdefault(operation.key, []).append(Bound(operation.t_return_ns, highest + 1, number))
        if is_ok_send:
            known = [offset for offset, _ in operation.items if offset != NO_OFFSET]
            if known:
                claims.setdefault(operation.key, []).append(Claim(operation.t_invoke_ns, min(known), number))
    for key, claimed in claims.items():
        for claim, bound in find_claims_below(bounds.get(key, ()), claimed):
            findings.add(
                Kind.REAL_TIME_ORDER,
                f"a send to {show_key(key)} was given offset {claim.offset}, and {bound.offset - 1} had been "
                "acknowledged or read before it began",
                key=key,
                offsets=(claim.offset, bound.offset - 1),
                about=(claim.by, bound.by),
            )


def check_watermarks(index: Index, findings: Findings) -> None:
    """To one process the high watermark never goes back (KIP-207 has a new leader refuse to answer until it
    can keep that), neither behind an earlier one nor behind what it has read; and nothing is read above
    it."""
    bounds: dict[tuple[str, Key], list[Bound]] = {}
    claims: dict[tuple[str, Key], list[Claim]] = {}
    for number, operation in enumerate(index.operations):
        key, watermark = operation.key, operation.high_watermark
        if key is None or operation.f not in (Function.POLL, Function.LIST_OFFSETS):
            continue
        end = max(operation.items)[0] + 1 if operation.items else NO_OFFSET
        place = (operation.process, key)
        if watermark is not None:
            claims.setdefault(place, []).append(Claim(operation.t_invoke_ns, watermark, number))
            if end > watermark:
                findings.add(
                    Kind.READ_ABOVE_WATERMARK,
                    f"{operation.process} was given offset {end - 1} of {show_key(key)} with a high "
                    f"watermark of {watermark}",
                    key=key,
                    offsets=(end - 1,),
                    about=(number,),
                )
        told = max(end, NO_OFFSET if watermark is None else watermark)
        if told != NO_OFFSET:
            bounds.setdefault(place, []).append(Bound(operation.t_return_ns, told, number))
    for place, claimed in claims.items():
        for claim, bound in find_claims_below(bounds[place], claimed):
            findings.add(
                Kind.WATERMARK_REGRESS,
                f"{place[0]} was told a high watermark of {claim.offset} for {show_key(place[1])} after it "
                f"had seen {bound.offset}",
                key=place[1],
                offsets=(claim.offset, bound.offset),
                about=(claim.by, bound.by),
            )
