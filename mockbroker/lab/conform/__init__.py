"""Conformance check: conversations recorded with Apache Kafka, replayed against a broker and compared by response."""
