"""The command line of Springtide's operators: `springtide topics create orders --partitions 12`."""
