"""Tools that run the broker under study: simulation, conformance, demo, history."""
