"""Scripted sans-IO clients, which follow Kafka's client protocols and retry as real clients do."""
