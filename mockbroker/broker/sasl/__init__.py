"""The SASL mechanisms, each in its own module, and the credentials of users."""
