"""Findings: trouble that detectors recognise in a capture, one row of the table ``findings`` each."""
