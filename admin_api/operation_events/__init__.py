"""The events of an operation: a stream of its states for clients that would otherwise poll."""
