"""The group coordinator: group types, their state machines and records. It uses no IO, no clock and no random
numbers.
"""
