"""ShareFetch and ShareAcknowledge requests: share sessions, acquisition, and the purgatory of waiting fetches."""
