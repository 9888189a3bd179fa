"""The error for a missing package that a pip extra installs; the error names the extra."""

from __future__ import annotations


def missing(error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """Return the exception to raise instead of ``error``: it names the pip extra that installs the missing package.

    ``error`` itself is returned if the missing module is part of kwire or mockbroker.
    """
    package = (error.name or "").partition(".")[0]
    if package in ("kwire", "mockbroker"):
        return error
    return ModuleNotFoundError(f"{package} is missing: pip install 'kwire[{extra}]'", name=error.name)
