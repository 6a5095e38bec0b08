"""Power cuts for the storage engine: crash states in memory, and a real file system that loses its power."""
