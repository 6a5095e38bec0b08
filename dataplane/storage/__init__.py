"""The logs of a broker's replicas on disk: segments, indexes, checkpoints, recovery, retention."""
