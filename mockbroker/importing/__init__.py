"""The import of groups, offsets and topics from the log directories of a stopped Kafka broker."""
