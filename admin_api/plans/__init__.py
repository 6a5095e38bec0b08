"""Plans: make, show, approve, carry out, undo."""
