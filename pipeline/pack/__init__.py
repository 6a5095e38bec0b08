"""What tasks import, as one file that Spark ships to executors with `--archives`."""
