"""The parts that any process needs that speaks Kafka and holds a session with the controller.

Server, connections and poller; the session and the view of the cluster; handlers that answer for the whole
cluster; counters and the page with metrics. Brokers use it, and so can processes without a disk.
"""
