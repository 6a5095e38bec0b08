"""A cluster on simulated hosts: real processes, each host with its own network, disk, boot id and wall
clock, all of which can fail."""
