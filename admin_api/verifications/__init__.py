"""Results of `pipeline verify`: whether replicas are identical, complete and in order."""
