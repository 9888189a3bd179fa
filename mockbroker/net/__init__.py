"""The trio shell: sockets, TLS, time, connections."""
