"""Placement from load history: which replicas should be elsewhere so that no broker carries far more."""
