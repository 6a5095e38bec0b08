"""How a broker keeps its replicas' logs on disk: segments, indexes, checkpoints, recovery, retention."""
