"""The events of an operation: its states as they come, for whoever follows it without asking again."""
