"""The frame of the pipeline's jobs: one command line, one session, one way to report."""
