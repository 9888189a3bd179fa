"""Engines: a Layout compiled to functions that decode and encode one version of a message."""
