"""The cluster's metadata (brokers, topics, partitions) and the partition logs in memory; sans-IO."""
