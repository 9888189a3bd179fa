"""The proxy: it forwards the traffic of clients to a real cluster, and can observe and change it."""
