"""The folders in the staging folder of a job, other than those of the tables."""

from __future__ import annotations

from kwire.capture.files.file_systems import below


def unpacked_in(staging: str) -> str:
    """Return the folder in ``staging`` into which gzip files are decompressed."""
    return below(staging, "unpacked")


def secrets_in(staging: str) -> str:
    """Return the folder in ``staging`` in which tasks store the TLS secrets of pcapng files."""
    return below(staging, "secrets")


def wrong_in(staging: str) -> str:
    """Return the folder in ``staging`` in which tasks report wrong guesses of packet record positions."""
    return below(staging, "wrong")
