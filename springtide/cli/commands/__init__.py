"""The commands, a module a noun. Pure: each says what it asks and how the answer is shown."""
