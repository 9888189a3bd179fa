"""Fault rules: which requests and connections get a fault, how often, and which fault.

The package consists of pure functions and counters. It does not wait, send or close connections: the broker carries out
the actions of a rule.
"""
