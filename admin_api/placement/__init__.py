"""Where replicas are, were, and why."""
