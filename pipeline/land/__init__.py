"""Topics to Parquet: each record once, also when processes are killed."""
