"""The matrix: how to subscribe, where to start, where to end, and what else an option changes. Pure."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from itertools import product

from tests.pipeline_proof.contract.rules import subscribed
from tests.pipeline_proof.contract.world import FIRST_MS, STEP_MS, Where, World

Options = dict[str, str]

SUBSCRIPTIONS: dict[str, Options] = {
    "topic": {"subscribe": "orders-a"},
    "topics": {"subscribe": "orders-b, trades"},
    "pattern": {"subscribePattern": "orders-.*"},
    "assign": {"assign": '{"orders-a": [1, 2], "trades": [0]}'},
}
FAR_MS = FIRST_MS + STEP_MS * 10_000
MIDDLE_MS = FIRST_MS + STEP_MS * 11
LATE_MS = FIRST_MS + STEP_MS * 15

SUBSCRIPTION_REFUSALS: dict[str, Options] = {
    "no subscription": {},
    "two subscriptions": {"subscribe": "orders-a", "assign": '{"trades": [0]}'},
    "unknown topic": {"subscribe": "orders-a,nowhere"},
}


def by_topic(values: Mapping[Where, int]) -> dict[str, dict[str, int]]:
    """As options and checkpoints have it: `{"orders": {"0": 42}}`."""
    told: dict[str, dict[str, int]] = {}
    for (topic, number), value in values.items():
        told.setdefault(topic, {})[str(number)] = value
    return told


def _json(values: Mapping[Where, int]) -> str:
    return json.dumps(by_topic(values))


def starts(world: World, partitions: list[Where]) -> dict[str, Options]:
    """Every form of a start, for these partitions."""
    inside = {where: (world.log(where).start + world.log(where).end) // 2 for where in partitions}
    marks = {where: -2 if n % 2 else inside[where] for n, where in enumerate(partitions)}
    at_latest = {where: -1 if n == 0 else inside[where] for n, where in enumerate(partitions)}
    beyond = {where: world.log(where).end + 5 for where in partitions}
    too_many = {**inside, ("orders-a", 77): 0}
    too_few = dict(list(inside.items())[1:])
    moments = {where: MIDDLE_MS + STEP_MS * n for n, where in enumerate(partitions)}
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    return {
        "default": {},
        "earliest": {"startingOffsets": "earliest"},
        "latest": {"startingOffsets": "latest"},
        "offsets": {"startingOffsets": _json(inside)},
        "marks": {"startingOffsets": _json(marks)},
        "one at latest": {"startingOffsets": _json(at_latest)},
        "beyond": {"startingOffsets": _json(beyond)},
        "one too many": {"startingOffsets": _json(too_many)},
        "one too few": {"startingOffsets": _json(too_few)},
        "times": {"startingOffsetsByTimestamp": _json(moments)},
        "times, else latest": {"startingOffsetsByTimestamp": _json(moments), **strategy},
        "time": {"startingTimestamp": str(MIDDLE_MS)},
        "time, else latest": {"startingTimestamp": str(MIDDLE_MS), **strategy},
        "far time": {"startingTimestamp": str(FAR_MS)},
        "far time, else latest": {"startingTimestamp": str(FAR_MS), **strategy},
        "time before times before offsets": {
            "startingTimestamp": str(MIDDLE_MS),
            "startingOffsetsByTimestamp": _json(dict.fromkeys(partitions, FAR_MS)),
            "startingOffsets": "latest",
            **strategy,
        },
        "times before offsets": {
            "startingOffsetsByTimestamp": _json(moments),
            "startingOffsets": "latest",
            **strategy,
        },
    }


def ends(world: World, partitions: list[Where]) -> dict[str, Options]:
    """Every form of an end."""
    inside = {
        where: world.log(where).end - (world.log(where).end - world.log(where).start) // 4
        for where in partitions
    }
    marks = {where: -1 if n % 2 else inside[where] for n, where in enumerate(partitions)}
    at_earliest = {where: -2 if n == 0 else inside[where] for n, where in enumerate(partitions)}
    beyond = {where: world.log(where).end + 5 for where in partitions}
    moments = {where: LATE_MS + STEP_MS * n for n, where in enumerate(partitions)}
    return {
        "default": {},
        "latest": {"endingOffsets": "latest"},
        "earliest": {"endingOffsets": "earliest"},
        "offsets": {"endingOffsets": _json(inside)},
        "marks": {"endingOffsets": _json(marks)},
        "one at earliest": {"endingOffsets": _json(at_earliest)},
        "beyond": {"endingOffsets": _json(beyond)},
        "one too few": {"endingOffsets": _json(dict(list(inside.items())[1:]))},
        "times": {"endingOffsetsByTimestamp": _json(moments)},
        "time": {"endingTimestamp": str(LATE_MS)},
        "time before offsets": {"endingTimestamp": str(LATE_MS), "endingOffsets": "earliest"},
        "far time": {"endingTimestamp": str(FAR_MS)},
    }


EXTRAS: tuple[Options, ...] = (
    {},
    {"includeHeaders": "true"},
    {"kafka.isolation.level": "read_committed"},
    {"failOnDataLoss": "false"},
    {"minPartitions": "7", "includeHeaders": "true"},
    {"maxRecordsPerPartition": "4"},
    {"SubScribeTypo": "x", "coalesce": "false"},
)
"""The last one holds a name that nobody knows: such names are for others."""


def batch_cases(world: World, *, seed: int, drawn: int) -> dict[str, Options]:
    """Every start and every end with every subscription, and `drawn` of their pairs with something extra."""
    rng = random.Random(seed)
    cases: dict[str, Options] = {f"{name}": dict(options) for name, options in SUBSCRIPTION_REFUSALS.items()}
    pairs: list[tuple[str, Options]] = []
    for name, subscription in SUBSCRIPTIONS.items():
        partitions = subscribed(world, subscription)
        all_starts, all_ends = starts(world, partitions), ends(world, partitions)
        for start, options in all_starts.items():
            cases[f"{name}; from {start}"] = {**subscription, **options}
        for end, options in all_ends.items():
            cases[f"{name}; to {end}"] = {**subscription, **options}
        pairs += [
            (f"{name}; from {start}; to {end}", {**subscription, **all_starts[start], **all_ends[end]})
            for start, end in product(all_starts, all_ends)
        ]
    for name, options in rng.sample(pairs, drawn):
        extra = rng.choice(EXTRAS)
        cases[f"{name}; {extra}"] = {**options, **extra}
    return cases


def stream_cases(world: World) -> dict[str, Options]:
    """Every start once, its subscription in turn; and the options that mean something else to streams."""
    cases: dict[str, Options] = {}
    for number, name in enumerate(starts(world, subscribed(world, SUBSCRIPTIONS["topic"]))):
        which = list(SUBSCRIPTIONS)[number % len(SUBSCRIPTIONS)]
        subscription = SUBSCRIPTIONS[which]
        options = starts(world, subscribed(world, subscription))[name]
        cases[f"{which}; from {name}"] = {**subscription, **options}
    earliest = {**SUBSCRIPTIONS["pattern"], "startingOffsets": "earliest"}
    cases["at most 7 a trigger"] = {**earliest, "maxOffsetsPerTrigger": "7"}
    cases["committed, with headers"] = {
        **earliest,
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
    }
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        cases[f"{name} of a stream"] = {**earliest, name: "latest" if name == "endingOffsets" else "7"}
    return cases
