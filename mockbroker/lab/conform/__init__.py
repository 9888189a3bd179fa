"""The conformance check (``mockbroker conform``), which compares a broker with Apache Kafka.

The check replays conversations that were recorded with Apache Kafka, and compares each response with the recorded
response.
"""
