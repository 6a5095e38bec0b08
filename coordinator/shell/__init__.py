"""The shards of a coordinator process: their hosts, which step their runtimes, and their connections."""
