"""What `pipeline verify` found: whether replicas are the same, whole and in order."""
