"""The records of groups in the offsets topic, in Kafka's formats: writing groups, and loading them. It does no IO."""
