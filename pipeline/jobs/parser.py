"""The grammar of `pipeline`: one word for the job, what all jobs take, and what the job adds."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Final, cast

from pipeline.jobs.job import PROG, Job
from springtide.cli.arguments import setting
from springtide.cli.settings import TIMEOUT_SECONDS_DEFAULT

#: Each job's line of the help. `pipeline --help` imports no job, and a job's needs are not another's.
JOBS: Final = MappingProxyType(
    {
        "land": "topics to Parquet, each record once",
        "replay": "a lake or another cluster to a topic, each record once",
        "verify": "are all replicas the same, whole and in order?",
        "salvage": "what did an unclean election cut off, and what of it is missing?",
    }
)
#: Spark's own rule for what it shows to no one (spark.redaction.regex). Every user of a host can read its
#: processes' arguments.
_SECRET: Final = re.compile(r"(?i)secret|password|token|access[.]?key")
DESCRIPTION: Final = (
    "Jobs around the log: small ones in this process, others on Spark, on as many machines as it has."
)
EPILOG: Final = f"""\
{PROG} JOB --help shows a job's arguments, with examples.

The same on a Spark cluster, with what tasks import shipped beside it:
  python3 -m venv env && env/bin/pip install 'springtide[pipeline]'
  tar czf env.tar.gz -C env --exclude='./lib/python3*/site-packages/pyspark' .
  PYSPARK_PYTHON=env/bin/python spark-submit --master yarn --archives env.tar.gz#env \\
      $(env/bin/python -m pipeline.submit --path) land orders /mnt/lake --bootstrap-server store1:9092

exit status:
  0  done
  1  something was found to be wrong, or the job was refused
  2  the command line can't be understood
  3  no broker or no controller could be reached

environment:
  SPRINGTIDE_BOOTSTRAP_SERVER, SPRINGTIDE_URL, SPRINGTIDE_CLUSTER, SPRINGTIDE_TOKEN_FILE, SPRINGTIDE_ACTOR
  stand in for the options
"""


def parse(arguments: Sequence[str], *, version: str) -> argparse.Namespace:
    """Return the options, with the Job as `job`. argparse ends the process for what it refuses.

    Only the job that is asked for is imported.
    """
    root = argparse.ArgumentParser(
        prog=PROG,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=f"{PROG} {version}")
    names = root.add_subparsers(metavar="JOB", dest="job_name", required=True)
    asked_for = next((word for word in arguments if not word.startswith("-")), None)
    for name, summary in JOBS.items():
        if name != asked_for:
            names.add_parser(name, help=summary)
            continue
        job = load_job(name)
        parser = names.add_parser(
            name,
            help=summary,
            description=job.DESCRIPTION,
            epilog="\n".join(["examples:", *(f"  {example}" for example in job.EXAMPLES)]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=[_shared_options()],
            allow_abbrev=False,
        )
        parser.set_defaults(job=job)
        job.add_arguments(parser)
    return root.parse_args(arguments)


def spark_setting(text: str) -> tuple[str, str]:
    """K=V, for argparse's `type`."""
    name, value = setting(text)
    if _SECRET.search(name):
        raise argparse.ArgumentTypeError(
            f"{name} is a secret, and every user of this host can read it here: put it into "
            "conf/spark-defaults.conf, readable by your user only"
        )
    return name, value


def spark_remote(text: str) -> str:
    """The URL of a Spark Connect server, for argparse's `type`."""
    if re.search(r"(?i);token=", text):
        raise argparse.ArgumentTypeError(
            "there is a token in it, which every user of this host can read here: give the URL in the "
            "environment variable SPARK_REMOTE"
        )
    return text


def load_job(name: str) -> Job:
    return cast("Job", import_module(f"pipeline.{name}.job"))


def _shared_options() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    brokers = shared.add_argument_group("brokers and controllers")
    brokers.add_argument("--bootstrap-server", metavar="HOST:PORT,...", help="any of the cluster's brokers")
    brokers.add_argument(
        "--command-config",
        metavar="FILE",
        help="how to reach brokers, as Kafka's tools take it: TLS, a login",
    )
    brokers.add_argument("--url", metavar="URL,...", help="controllers (http://127.0.0.1:8080)")
    brokers.add_argument("--cluster", metavar="NAME", help="the cluster's name in the controller")
    brokers.add_argument("--token-file", metavar="FILE", help="bearer token for the controller")
    brokers.add_argument("--ca-file", metavar="FILE", help="the CAs to trust of https:// controllers")
    brokers.add_argument("--cert-file", metavar="FILE", help="certificate for controllers with --client-ca")
    brokers.add_argument("--key-file", metavar="FILE", help="that certificate's key, not encrypted")
    brokers.add_argument("--actor", metavar="NAME", help="who asks the controller, for its audit")
    brokers.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        default=TIMEOUT_SECONDS_DEFAULT,
        help="how long to retry while no controller answers (%(default)s)",
    )
    spark = shared.add_argument_group("Spark")
    spark.add_argument("--master", metavar="URL", help="local[4], spark://..., yarn, k8s://... (local[*])")
    spark.add_argument(
        "--remote", metavar="URL", type=spark_remote, help="a Spark Connect server: sc://host:15002"
    )
    spark.add_argument(
        "--conf", metavar="K=V", action="append", type=spark_setting, help="a Spark setting; repeatable"
    )
    spark.add_argument("--name", help="the application's name")
    shared.add_argument(
        "--output", choices=("table", "json"), default="table", help="how the result is printed (%(default)s)"
    )
    return shared
