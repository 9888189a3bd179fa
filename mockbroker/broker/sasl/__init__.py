"""The SASL mechanisms, one module each, and the credentials of users."""
