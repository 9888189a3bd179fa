"""Recordings of live traffic, in files that ``kwire capture`` reads, or in a topic of a Kafka cluster."""
