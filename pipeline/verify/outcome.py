"""A verification's result: for programs, and for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.verify.audited import Audited
from pipeline.verify.findings import EVERY_REPLICA, MEANINGS, Finding, Flaw
from pipeline.verify.joining import Verified, VerifiedPartition
from pipeline.verify.landed import LandedCounts

FINDINGS_SHOWN = 1_000
"""Findings in a result; all are counted."""
LINES_SHOWN = 50


class ReadingCost(NamedTuple):
    """`cpu_s`: processor time of the tasks' Python, all together."""

    seconds: float
    cpu_s: float
    tasks: int


def result_of(
    verified: Verified,
    measured: ReadingCost,
    landed: LandedCounts | None,
    audited: Audited | None,
    *,
    topics: Sequence[str],
    compacted: frozenset[str],
    began_ms: int,
    ended_ms: int,
) -> dict[str, Any]:
    """Return what `--output json` prints."""
    partitions = verified.partitions
    compared = sum(one.compared_bytes for one in partitions)
    total = len(verified.findings) + sum(one.findings_left_out for one in partitions)
    result: dict[str, Any] = {
        "verdict": "damaged" if total else "sound",
        "beganMs": began_ms,
        "endedMs": ended_ms,
        "topics": list(topics),
        "compactedTopics": sorted(compacted | {one.topic for one in partitions if one.is_compacted}),
        "partitionsTotal": len(partitions),
        "batches": sum(one.batches for one in partitions),
        "records": sum(one.records for one in partitions),
        "bytes": sum(one.size_bytes for one in partitions),
        "comparedBytes": compared,
        "tasks": measured.tasks,
        "seconds": round(measured.seconds, 3),
        "cpuSeconds": round(measured.cpu_s, 3),
        "gigabytesPerSecond": _rate(compared, measured.seconds),
        "gigabytesPerCoreSecond": _rate(compared, measured.cpu_s),
        "partitions": [_partition(one, audited) for one in partitions],
        "findingsTotal": total,
        "findings": [_finding(one) for one in verified.findings[:FINDINGS_SHOWN]],
    }
    if landed is not None:
        result["landed"] = {
            "compared": landed.compared,
            "waiting": landed.waiting,
            "before": landed.before,
        }
    if audited is not None:
        result["audit"] = {"unjudged": audited.unjudged}
    return result


def _partition(one: VerifiedPartition, audited: Audited | None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "topic": one.topic,
        "partition": one.partition,
        "firstOffset": one.first_offset,
        "nextOffset": one.next_offset,
        "batches": one.batches,
        "records": one.records,
        "bytes": one.size_bytes,
        "replicas": {str(broker_id): end.value for broker_id, end in one.replicas.items()},
        "leaderEpochs": [span.leader_epoch for span in one.epochs],
        "findings": one.findings + one.findings_left_out,
        "unjudged": one.unjudged,
        "gone": one.is_gone,
    }
    if one.is_compacted:
        told["rounds"] = {
            str(broker_id): None if round_ is None else round_.offset
            for broker_id, round_ in one.rounds.items()
        }
        told["apart"] = list(one.apart)
    if audited is not None:
        told["leaderships"] = [
            {
                "leaderEpoch": led.leader_epoch,
                "leader": led.leader,
                "since": led.since,
                "firstOffset": led.first_offset,
                "nextOffset": led.next_offset,
                "records": led.records,
            }
            for led in audited.leaderships.get(one.where, ())
        ]
    return told


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "kind": one.kind.value,
        "topic": one.topic,
        "partition": one.partition,
        "broker": None if one.broker_id == EVERY_REPLICA else one.broker_id,
        "firstOffset": one.first_offset,
        "lastOffset": one.last_offset,
        "batches": one.batches,
        "detail": one.detail,
    }


def _rate(size_bytes: int, seconds: float) -> float | None:
    return round(size_bytes / seconds / 1e9, 3) if seconds > 0 else None


def lines_of(result: Mapping[str, Any]) -> list[str]:
    """Return the same for people: what is wrong first, then how much was read."""
    lines: list[str] = []
    for finding in result["findings"][:LINES_SHOWN]:
        who = "all replicas" if finding["broker"] is None else f"broker {finding['broker']}"
        first, last = finding["firstOffset"], finding["lastOffset"]
        offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
        lines.append(f"{finding['topic']}-{finding['partition']}  {who}, {offsets}: {finding['kind']}")
        count = "" if finding["batches"] < 2 else f" ({finding['batches']} batches; of the first:)"
        lines.append(f"    {MEANINGS[Flaw(finding['kind'])]}{count}")
        lines.append(f"    {finding['detail']}")
    left = result["findingsTotal"] - min(len(result["findings"]), LINES_SHOWN)
    if left:
        lines.append(f"and {left} more: --output json lists up to {FINDINGS_SHOWN}")
    lines += _remarks(result["partitions"])
    rate = result["gigabytesPerCoreSecond"]
    lines.append(
        f"{result['records']:,} records in {result['batches']:,} batches of {result['partitionsTotal']} "
        f"partitions; {result['comparedBytes']:,} bytes of all replicas compared in {result['seconds']:.1f} s"
        + (f", {rate:.2f} GB/s per core" if rate else "")
    )
    if "landed" in result:
        landed = result["landed"]
        lines.append(
            f"landed: {landed['compared']:,} records counted; {landed['waiting']:,} of the log wait to be "
            f"landed, {landed['before']:,} were landed of offsets before those that were looked at"
        )
    if "audit" in result and result["audit"]["unjudged"]:
        lines.append(
            f"audit: it does not reach to {result['audit']['unjudged']} leader epochs, which are not judged"
        )
    total = result["findingsTotal"]
    lines.append("nothing is wrong" if not total else f"{total} finding{'s' if total > 1 else ''}")
    return lines


def _round(offset: int | None) -> str:
    return "unknown" if offset is None else "none" if offset < 0 else f"that of offset {offset}"


def _remarks(partitions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is no finding, but worth knowing."""
    lines = []
    for one in partitions:
        name = f"{one['topic']}-{one['partition']}"
        if one["gone"]:
            lines.append(f"{name}  was deleted meanwhile")
            continue
        for broker_id, end in one["replicas"].items():
            if end == "catching_up":
                lines.append(f"{name}  broker {broker_id} is catching up: compared up to its end")
            elif end == "left":
                lines.append(f"{name}  broker {broker_id} was taken out meanwhile")
        if one.get("apart"):
            who = ", ".join(map(str, one["apart"]))
            rounds = ", ".join(
                f"{broker_id}: {_round(offset)}" for broker_id, offset in one["rounds"].items()
            )
            lines.append(
                f"{name}  not compared with the leader's log, because they have not applied the same rounds "
                f"of compaction: the replicas of brokers {who} (last rounds: {rounds})"
            )
        if one["unjudged"]:
            lines.append(f"{name}  {one['unjudged']} batches or stretches beyond what a task remembers")
    return lines
