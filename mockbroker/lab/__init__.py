"""Tools that use the broker for experiments: simulation, conformance tests, demo, and the history of rebalancing."""
