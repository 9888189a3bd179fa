"""File systems: local paths, and addresses such as ``s3://bucket/key``.

pyarrow reads addresses with ``s3``, ``gs``, ``abfs``, ``hdfs`` and ``file``. fsspec reads other addresses, if it is
installed. Credentials come from the environment, as these libraries document.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, BinaryIO, cast

ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+://")
QUERY = re.compile(r"\?\w+=.*$")  # options of the file system
SAME = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names
OWN = ("abfs", "abfss", "file", "gcs", "gs", "hdfs", "mock", "s3", "viewfs")  # schemes that pyarrow supports itself


def is_address(path: str) -> bool:
    """Return True for an address such as ``s3://bucket/key``, False for a local path."""
    return ADDRESS.match(path) is not None


def file_system(path: str) -> tuple[Any, str]:
    """Return the pyarrow.fs.FileSystem for a path or address, and the path inside this file system.

    Raises: OSError if the file system is not supported.
    """
    from pyarrow import ArrowException, fs

    if not is_address(path):
        return fs.LocalFileSystem(), os.path.abspath(path)
    scheme, _, rest = path.partition("://")
    scheme = SAME.get(scheme, scheme)
    try:
        resolved: tuple[Any, str] = fs.FileSystem.from_uri(f"{'' if scheme in OWN else 'fsspec+'}{scheme}://{rest}")
    except (ArrowException, ImportError, ValueError) as error:
        raise OSError(0, f"{scheme}:// is not a supported file system: {error}", path) from error
    return resolved


def below(path: str, *names: str) -> str:
    """Return the path or address of a file in a folder. ``names``: names of subfolders and the file."""
    plain = QUERY.sub("", path) if is_address(path) else path
    return "/".join([plain.rstrip("/"), *names]) + path[len(plain) :]


def open_at(path: str, *, exact: bool = False) -> BinaryIO:
    """Open a file for random access. Raises: OSError if a file or a folder cannot be read.

    Args:
        path: path or address.
        exact: for local files, True to read exactly the requested bytes, without a buffer.
    """
    if not is_address(path):
        return cast("BinaryIO", open(path, "rb", buffering=0)) if exact else open(path, "rb")
    files, inside = file_system(path)
    opened: BinaryIO = files.open_input_file(inside)
    return opened


def size_of(path: str) -> int:
    """Return the size of a file in bytes. Raises: OSError if a file or a folder cannot be read."""
    if not is_address(path):
        return os.path.getsize(path)
    with open_at(path) as raw:
        return raw.seek(0, os.SEEK_END)


def changed_at(path: str) -> float:
    """Return the modification time of a file, in seconds since 1970.

    Raises: OSError if a file or a folder cannot be read.
    """
    if not is_address(path):
        return os.path.getmtime(path)
    files, inside = file_system(path)
    return float(files.get_file_info(inside).mtime.timestamp())


def listed(address: str, wanted: Callable[[str], bool]) -> list[str]:
    """Return the addresses of the files that an address refers to, sorted.

    Raises: OSError if a file or a folder cannot be read.

    Args:
        address: address of a file, a folder or a pattern; ``*`` in a pattern also matches ``/``.
        wanted: function that selects the files of a folder by name.
    """
    from pyarrow import fs

    plain = QUERY.sub("", address)
    query = address[len(plain) :]
    pattern = re.search(r"[*?\[]", plain)
    begin = plain[: pattern.start()].rpartition("/")[0] if pattern else plain
    try:
        files, inside = file_system(begin + query)
        info = files.get_file_info(inside)
    except OSError as error:  # pyarrow's has only a message
        raise OSError(error.errno or 0, error.strerror or str(error), address) from error
    if not pattern and info.type == fs.FileType.File:
        return [address]
    if info.type == fs.FileType.NotFound and not pattern:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), address)
    infos = files.get_file_info(fs.FileSelector(inside, recursive=True, allow_not_found=True))
    names = [one.path.removeprefix(inside).lstrip("/") for one in infos if one.type == fs.FileType.File]
    if pattern:
        names = [name for name in names if fnmatchcase(f"{begin}/{name}", plain)]
    else:
        names = [name for name in names if wanted(name)]
    return [f"{begin.rstrip('/')}/{name}{query}" for name in sorted(names)]
