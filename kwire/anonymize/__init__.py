"""Replacement of names, keys, values and other text in captured traffic, so that the capture can be given to others."""
