"""Streams groups (KIP-1071): the groups of Kafka Streams applications, whose members run tasks."""
