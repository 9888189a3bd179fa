"""The exception for a missing optional package. Its message names the pip extra to install."""

from __future__ import annotations


def missing(error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """Return the exception to raise instead of ``error``: it names the pip extra that installs the missing package.

    ``error`` itself is returned if the missing module is part of kwire or mockbroker.

    Args:
        error: exception of the failed import.
        extra: name of the pip extra, such as "http".
    """
    package = (error.name or "").partition(".")[0]
    if package in ("kwire", "mockbroker"):
        return error
    return ModuleNotFoundError(f"{package} is missing: pip install 'kwire[{extra}]'", name=error.name)
