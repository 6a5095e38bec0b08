"""Users: who may log in, and by which mechanisms."""
