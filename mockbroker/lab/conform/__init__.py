"""The conformance check (``mockbroker conform``).

It replays conversations that were recorded with Apache Kafka against a broker, and compares each response.
"""
