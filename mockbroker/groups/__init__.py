"""The group coordinator: group types, their state machines and records.

The package uses no I/O, no clock and no random numbers.
"""
