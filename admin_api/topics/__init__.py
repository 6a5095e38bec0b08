"""Topics: create, list, show, change, delete."""
