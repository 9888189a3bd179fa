"""Engines of the codec. An engine decodes and encodes one version of a message, based on the message's Layout."""
