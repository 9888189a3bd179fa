"""Simulations of Kafka's rebalance protocols in virtual time, from ZooKeeper watches to KIP-848 (docs/history.md)."""
