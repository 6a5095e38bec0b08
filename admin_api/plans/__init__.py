"""Plans: made, looked at, carried out."""
