"""Groups of the consumer rebalance protocol (KIP-848)."""
