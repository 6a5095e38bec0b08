"""The packages that tasks import, as one file that Spark ships to executors with `--archives`."""
