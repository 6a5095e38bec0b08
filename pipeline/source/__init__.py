"""The source: what to read (options, offsets, plans) and the readers that Spark calls."""
