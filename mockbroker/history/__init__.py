"""The rebalance schemes that came before, as machines that run in virtual time."""
