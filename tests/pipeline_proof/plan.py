"""The rows of the table, and the commands that show them.

A row names the parts it is made of; the plan is whole only if every named part comes from one of its steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.pipeline_proof.part import part_name
from tests.proof.plan import Step

PLANNING = "tests/unit/controller/core/planning/test_evening_proof.py"
WITH_SPARK = "tests/integration/pipeline"


@dataclass(frozen=True, slots=True)
class Row:
    """What is shown, and what holds if it is."""

    number: int
    measure: str
    passes_if: str


ROWS = (
    Row(1, "contract of the source", "rows, errors and checkpoints of Spark's Kafka source"),
    Row(2, "read throughput", "1 KB: at least Spark's Kafka source"),
    Row(3, "land to Parquet", "at least 1.5 times either source and Spark's Parquet writer"),
    Row(4, "write throughput, acks=all", "exactly-once at least 0.8 times any at-least-once"),
    Row(5, "executors that are other processes", "the same jobs, the same answers"),
    Row(6, "the sink under kills, lost answers, elections", "0 missing, 0 twice, 0 out of order"),
    Row(7, "killed before its first micro-batch is committed", "the start does not move"),
    Row(8, "verify: seeded damage under live writes", "all found, no false alarm"),
    Row(9, "salvage after an unclean election", "missing = truth; merged once"),
    Row(10, "land: SIGKILL at each step", "every reader reads every offset once"),
    Row(11, "plans on drawn skew", "max/mean at most 1.1, no hard goal broken"),
)


def steps(first_seed: int) -> Sequence[Step]:
    """Return the steps in the order of rows; seeds go from `first_seed` on."""
    first = str(first_seed)

    def step(row: int, title: str, parts: str, command: str, *, minutes_max: float = 10) -> Step:
        names = tuple(part_name(row, part) for part in parts.split())
        return Step(title, ("-m", *command.split()), names, minutes_max)

    def test(row: int, title: str, parts: str, path: str, *, minutes_max: float = 10) -> Step:
        return step(row, title, parts, f"pytest -q -m proof --timeout 900 {path}", minutes_max=minutes_max)

    return [
        test(
            1,
            "the source's options",
            "contract beside-kafka",
            f"{WITH_SPARK}/test_source_contract_with_spark.py",
            minutes_max=20,
        ),
        step(2, "reading", "read", "bench pipeline read", minutes_max=30),
        step(3, "landing", "land", "bench land", minutes_max=20),
        step(4, "writing", "write", "bench pipeline write", minutes_max=30),
        test(
            5,
            "other executors",
            "local-cluster standalone connect",
            f"{WITH_SPARK}/test_scale_out_with_spark.py {WITH_SPARK}/test_spark_walk.py"
            f" {WITH_SPARK}/test_declared_with_spark.py",
            minutes_max=60,
        ),
        step(
            6, "the sink, simulated", "simulation", f"tests.pipeline_proof sink --seeds 1000 --first {first}"
        ),
        step(
            6,
            "the sink with Spark and brokers that are killed",
            "spark",
            f"tests.pipeline_proof faults --runs 20 --first {first}",
            minutes_max=40,
        ),
        # Not one of the long ones: what CI runs shows it.
        step(
            6,
            "the sink, rows in another order",
            "reorder",
            f"pytest -q --timeout 600 {WITH_SPARK}/test_sink_with_spark.py -k another_order",
        ),
        test(7, "the start of a stream", "start", f"{WITH_SPARK}/test_start_with_spark.py"),
        test(8, "verify", "verify", f"{WITH_SPARK}/test_verify_with_spark.py"),
        test(
            9,
            "salvage",
            "salvage",
            f"{WITH_SPARK}/test_salvage_verdicts_with_spark.py {WITH_SPARK}/test_salvage_with_spark.py",
        ),
        test(10, "land, killed", "land-kills", f"{WITH_SPARK}/test_land_with_spark.py", minutes_max=20),
        test(11, "plans, on drawn skew", "seeded large", PLANNING, minutes_max=20),
    ]
