"""Hostile brokers: sessions that go wrong at one step, and what a client makes of them."""
