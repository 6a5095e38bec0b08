"""The schedule under which Kafka lost acknowledged writes in 2013, against real processes: with our defaults
nothing may be lost, and with the settings of 2013 something must be."""
