"""Decryption of captured TLS connections with the secrets of a key log."""
