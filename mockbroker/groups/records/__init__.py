"""Writing groups to records of the offsets topic, in Kafka's formats, and loading groups from them. Without IO."""
