"""The base of all other packages of the broker: settings, releases, effects and deadlines."""
