"""Groups as records of the offsets topic, in Kafka's formats, and groups made of such records. Without IO."""
