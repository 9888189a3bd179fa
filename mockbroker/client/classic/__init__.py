"""The member of a classic group: one module for each request and for each step of a rebalance."""
