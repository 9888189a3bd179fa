"""Kafka's rebalance protocols from ZooKeeper watchers to KIP-848, as simulations in virtual time (docs/history.md)."""
