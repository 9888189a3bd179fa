"""The import of groups and offsets from the log directories of a stopped Kafka broker."""
