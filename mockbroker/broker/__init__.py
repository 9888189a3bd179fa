"""The state of all brokers of a cluster, and the handling of requests."""
