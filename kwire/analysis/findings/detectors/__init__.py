"""The detectors of findings, one file each, or a few that look at the same rows."""
