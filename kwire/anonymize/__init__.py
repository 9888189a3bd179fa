"""Replacement of names, keys, values and other text in captured traffic, so that a capture can be shared."""
