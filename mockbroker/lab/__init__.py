"""Tools that use the broker for experiments: simulation, conformance check, torture tests, demos, and the history of
rebalancing.
"""
