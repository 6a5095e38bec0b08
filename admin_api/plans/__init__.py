"""Plans: make, show, carry out."""
