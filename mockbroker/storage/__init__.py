"""Logs on disk as Kafka keeps them: directories, segments, batches."""
