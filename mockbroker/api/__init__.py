"""The Python API of mockbroker: clusters, their clock and records, fault rules, and conditions that a test can wait
for.
"""
