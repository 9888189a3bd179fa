"""Engines of the codec, which decode and encode one version of a message by functions that are built from its
Layout.
"""
