"""The error for a missing package that only a pip extra installs; it names the extra."""

from __future__ import annotations


def missing(error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """Return the exception to raise from ``error``; ``error`` itself if the missing module is one of kwire or
    mockbroker.
    """
    package = (error.name or "").partition(".")[0]
    if package in ("kwire", "mockbroker"):
        return error
    return ModuleNotFoundError(f"{package} is missing: pip install 'kwire[{extra}]'", name=error.name)
