"""Plans: which replicas are to go where, decided before anything moves. Values in, a plan out."""
