"""Settings of topics: what applies, where it comes from, and changes of it."""
