"""Engines of the codec. An engine decodes and encodes one version of a message by functions built from its Layout."""
