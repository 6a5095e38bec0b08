"""A look at the records of a topic: asked here, read in a process of its own (`room`)."""
