"""Where files are: on this machine by their path, or elsewhere by an address such as ``s3://bucket/key``.

Addresses are read through pyarrow (``s3``, ``gs``, ``abfs``, ``hdfs``, ``file``) or, with any other scheme, through
fsspec if that is installed; what they need to know is taken from the environment as their own documentation says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any, BinaryIO, cast

ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+://")
QUERY = re.compile(r"\?\w+=.*$")  # what a file system is told about itself
SAME = {"s3a": "s3", "s3n": "s3"}  # as Hadoop calls them
OWN = ("abfs", "abfss", "file", "gcs", "gs", "hdfs", "mock", "s3", "viewfs")  # that pyarrow reads itself


def is_address(path: str) -> bool:
    """Whether this is not a path on this machine."""
    return ADDRESS.match(path) is not None


def file_system(path: str) -> tuple[Any, str]:
    """The pyarrow.fs.FileSystem of a path or an address, and what the path is called there. Raises: OSError."""
    from pyarrow import ArrowException, fs

    if not is_address(path):
        return fs.LocalFileSystem(), os.path.abspath(path)
    scheme, _, rest = path.partition("://")
    scheme = SAME.get(scheme, scheme)
    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(f"{'' if scheme in OWN else 'fsspec+'}{scheme}://{rest}")
    except (ArrowException, ImportError, ValueError) as error:
        raise OSError(0, f"no file system for {scheme}://: {error}", path) from error
    return found


def below(path: str, *names: str) -> str:
    """A path, or an address, inside a folder."""
    plain = QUERY.sub("", path) if is_address(path) else path
    return "/".join([plain.rstrip("/"), *names]) + path[len(plain) :]


def open_at(path: str, *, exact: bool = False) -> BinaryIO:
    """A file for reading, by bytes and places; ``exact``: not a byte more than asked for. Raises: OSError."""
    if not is_address(path):
        return cast("BinaryIO", open(path, "rb", buffering=0)) if exact else open(path, "rb")
    files, inside = file_system(path)
    opened: BinaryIO = files.open_input_file(inside)
    return opened


def size_of(path: str) -> int:
    """The bytes of a file. Raises: OSError."""
    if not is_address(path):
        return os.path.getsize(path)
    with open_at(path) as raw:
        return raw.seek(0, os.SEEK_END)


def changed_at(path: str) -> float:
    """When a file was last written, in seconds since 1970. Raises: OSError."""
    if not is_address(path):
        return os.path.getmtime(path)
    files, inside = file_system(path)
    return float(files.get_file_info(inside).mtime.timestamp())


def listed(address: str, wanted: Callable[[str], bool]) -> list[str]:
    """The addresses that one means, in order: of a file, of the ``wanted`` names in a folder, or those of a pattern,
    whose ``*`` does not stop at a ``/``. Raises: OSError.
    """
    from pyarrow import fs

    plain = QUERY.sub("", address)
    query = address[len(plain) :]
    pattern = re.search(r"[*?\[]", plain)
    begin = plain[: pattern.start()].rpartition("/")[0] if pattern else plain
    files, inside = file_system(begin + query)
    info = files.get_file_info(inside)
    if not pattern and info.type == fs.FileType.File:
        return [address]
    if info.type == fs.FileType.NotFound and not pattern:
        raise FileNotFoundError(2, "No such file or directory", address)
    found = files.get_file_info(fs.FileSelector(inside, recursive=True, allow_not_found=True))
    names = [one.path.removeprefix(inside).lstrip("/") for one in found if one.type == fs.FileType.File]
    if pattern:
        names = [name for name in names if fnmatchcase(f"{begin}/{name}", plain)]
    else:
        names = [name for name in names if wanted(name)]
    return [f"{begin.rstrip('/')}/{name}{query}" for name in sorted(names)]
