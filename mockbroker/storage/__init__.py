"""Partition logs on disk in Kafka's layout: log directories, segments, indexes, checkpoints."""
