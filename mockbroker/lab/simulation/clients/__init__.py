"""Scripted clients, sans-IO. They follow Kafka's client protocols and retry as real clients do."""
