"""Client telemetry (KIP-714): the subscriptions of clients, and the metrics that they push."""
