"""The IO layer of mockbroker, on trio: sockets, TLS, the clock, and the connections of clients."""
