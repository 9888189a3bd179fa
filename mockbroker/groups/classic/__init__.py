"""Groups of the classic rebalance protocol."""
