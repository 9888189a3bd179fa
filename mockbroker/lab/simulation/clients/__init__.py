"""Scripted clients, sans-IO, which follow Kafka's client protocols and retry as real clients do."""
