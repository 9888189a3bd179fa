"""The proxy, which forwards the traffic of clients to a real cluster, and can observe and change the traffic."""
