"""The Kafka consumer on trio; its public names are those of ``mockbroker.consumer``."""
