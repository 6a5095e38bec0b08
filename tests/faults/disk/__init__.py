"""Volumes that go away and come back under real processes, on real ext4."""
