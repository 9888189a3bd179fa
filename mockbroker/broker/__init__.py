"""The state of all brokers of a cluster, and what a request does to it."""
