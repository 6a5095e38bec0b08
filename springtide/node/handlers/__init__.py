"""Handlers of requests that any process of a cluster can answer: metadata, administration, versions."""
