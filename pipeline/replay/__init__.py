"""From a lake or another cluster to a topic: each record once, however often the job is started again."""
