"""Tools that use the broker for experiments: simulation, conformance check, demo, and the history of rebalancing."""
