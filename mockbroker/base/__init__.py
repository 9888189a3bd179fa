"""The base of all other packages of the broker, such as settings, releases, effects and deadlines."""
