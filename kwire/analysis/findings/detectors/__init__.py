"""The detectors of findings, one module for each problem or for a few problems with the same evidence."""
