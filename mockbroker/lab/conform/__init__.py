"""Conformance check: replays conversations recorded with Apache Kafka against a broker and compares each response."""
