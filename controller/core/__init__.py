"""The controller's decisions, as functions: (image, event, now) -> records, effects, reply. Pure."""
