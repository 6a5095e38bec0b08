"""ZooKeeper that is put back to an older copy, on real processes: `python -m tests.faults.metadata`."""
