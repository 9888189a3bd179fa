"""Transactions: what a coordinator knows of a transactional id, and what clients may do next. Data and rules."""
