"""Topics: create, list, look at, delete."""
