"""Topics to Parquet: each record once, whatever is killed when."""
