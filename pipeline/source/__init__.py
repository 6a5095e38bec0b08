"""The source: what to read (options, offsets, plans; all pure) and the readers that Spark calls."""
