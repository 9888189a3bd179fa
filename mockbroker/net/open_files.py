"""The maximum number of files, sockets included, that this process may open."""

from __future__ import annotations

try:
    import resource
except ModuleNotFoundError:  # Windows: no such limit
    resource = None  # type: ignore[assignment]


def raise_open_files_limit() -> int | None:
    """Raise the limit of open files of this process to the maximum that the operating system permits.

    Returns: The limit after the call; None if the number of open files is not limited.
    """
    if resource is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # macOS: a limit of the kernel below the hard limit
        hard = soft
    return None if hard == resource.RLIM_INFINITY else hard
