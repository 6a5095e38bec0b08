"""Where the controller meets the world: ZooKeeper, the clock, brokers' requests, other controllers. Decides
nothing."""
