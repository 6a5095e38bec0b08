"""The shards of a coordinator process: what steps their runtimes, and their roads to their logs."""
