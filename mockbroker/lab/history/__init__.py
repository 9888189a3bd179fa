"""The older ways to rebalance, as machines that run in virtual time, beside those that came after (docs/history.md)."""
