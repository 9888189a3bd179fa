"""Simulations of Kafka's rebalance protocols, from ZooKeeper watchers to KIP-848, in virtual time (docs/history.md)."""
