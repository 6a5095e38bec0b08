"""Which jobs there are. A job is imported when it is asked for: its needs are not another's."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import Final

from pipeline.jobs.job import Job

#: name: (module, summary). The summaries stand here so that `pipeline --help` imports nothing.
JOBS: Final = MappingProxyType(
    {
        "land": ("pipeline.land.job", "topics to Parquet, each record once"),
        "replay": ("pipeline.replay.job", "a lake or another cluster to a topic, each record once"),
        "verify": ("pipeline.verify.job", "are all replicas the same, whole and in order?"),
        "salvage": (
            "pipeline.salvage.job",
            "what did an unclean election cut off, and what of it is missing?",
        ),
        "plan": ("pipeline.plan.job", "from load history to proposed moves"),
        "pack": ("pipeline.pack.job", "what tasks import, as one file for --archives"),
    }
)


def load_job(name: str) -> Job:
    """Raises KeyError for a name that is none."""
    module, summary = JOBS[name]
    job: Job = import_module(module).JOB
    assert job.name == name, "a job is registered under its name"
    assert job.summary == summary, "the help's line is the job's"
    return job
