"""Fault rules: which requests and connections get a fault, how often, and which fault.

Pure functions and counters. Nothing here waits, sends or closes: the broker carries out what a rule asks for.
"""
