"""The records of groups in the offsets topic, in Kafka's formats: writing groups, and loading them.

The package does no I/O.
"""
