"""Fault rules: the requests and connections that get a fault, how often they get it, and the kind of fault.

The package consists of pure functions and counters. It does not wait, send or close connections: the broker carries out
the actions of a rule.
"""
