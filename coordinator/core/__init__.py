"""Pure decisions of a coordinator: the life of a shard, and the machines that shards run."""
