"""Wall clocks of real brokers leap by days."""
