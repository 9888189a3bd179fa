"""The base of all other packages, such as settings, releases, effects and deadlines."""
