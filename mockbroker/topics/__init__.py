"""Brokers, topics and partition logs: data and rules, without sockets."""
