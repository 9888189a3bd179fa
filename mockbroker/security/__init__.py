"""Users, ACLs, delegation tokens, SASL settings, keystores, and the decisions of Kafka's StandardAuthorizer.

The package does no I/O, except that ``keystores.py`` reads files.
"""
