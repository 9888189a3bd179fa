"""Findings, which are problems that detectors recognise in a capture. Each is a row of the table ``findings``."""
