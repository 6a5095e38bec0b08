"""What the controller decides, as functions of values: (image, event, now) -> records, effects, reply."""
