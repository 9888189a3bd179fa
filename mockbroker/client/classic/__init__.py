"""A member of a classic group: a file for each request and for each step of a rebalance."""
