"""Engines: functions, built from a Layout, that decode and encode one version of a message."""
