"""The error for a package that only an extra installs: it names the extra."""

from __future__ import annotations


def missing(error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """The error to raise from ``error``, which stays the same where a module of our own is missing."""
    package = (error.name or "").partition(".")[0]
    if package in ("kwire", "mockbroker"):
        return error
    return ModuleNotFoundError(f"{package} is missing: pip install 'kwire[{extra}]'", name=error.name)
