"""Coordinators: processes without a disk, whose state is the shards of a compacted topic, replayed."""
