"""The capture files that paths, folders and glob patterns select."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

from kwire.capture.files.capture_file import each, find
from kwire.capture.files.file_systems import is_address


def files(inputs: Sequence[str]) -> list[str]:
    """Return the capture files that paths, folders and glob patterns select, ordered by time of the first packet.

    Raises: OSError if a file or a folder cannot be read.
    """
    return find(path for pattern in inputs for path in globbed(pattern) or [pattern])


def without_files(inputs: Sequence[str]) -> list[str]:
    """Return the paths, folders and glob patterns that select no capture file now. Addresses are not checked."""
    return [one for one in inputs if not is_address(one) and not each(globbed(one))]


def globbed(pattern: str) -> list[str]:
    """Return the paths that match a glob pattern; empty if no path matches.

    The path of a file or folder is no pattern: a shell that expands ``*`` may return a name such as ``a[1].pcap``. A
    pattern with an address, such as ``s3://...``, is returned unchanged: the remote file system resolves the pattern.
    """
    return [pattern] if is_address(pattern) or os.path.exists(pattern) else sorted(glob.glob(pattern))
