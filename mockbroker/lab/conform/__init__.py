"""Recorded conversations with real brokers, played against any broker and compared answer by answer."""
