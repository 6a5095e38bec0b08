"""Runs ZooKeeper, controllers and brokers as processes on this machine: quick start, tests and benchmark
share it."""
