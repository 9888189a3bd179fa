"""Simulations of Kafka's rebalance protocols in virtual time, from ZooKeeper watches to KIP-848 (docs/history.md).

A scheme is a rebalance protocol; a story is a script of joins, leaves, crashes and other events. Every story can be run
with every scheme.
"""
