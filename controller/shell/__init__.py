"""The controller's contact with the world: ZooKeeper, the clock, brokers' requests, other controllers. It
decides nothing."""
