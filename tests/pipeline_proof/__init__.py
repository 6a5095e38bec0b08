"""The pipeline's table: what it promises, row by row, each shown by running it (`make pipeline-proof`)."""
