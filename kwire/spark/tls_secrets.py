"""TLS secrets in pcapng files, stored by the tasks that read the files for the tasks that decrypt the connections.

The first tasks have ended when the others begin. This module does not depend on Spark.
"""

from __future__ import annotations

import hashlib

from pyarrow import fs

from kwire.capture.files.file_systems import below, file_system
from kwire.capture.tls.keylog import KeyLog


def store(keylog: KeyLog, folder: str) -> None:
    """Write the secrets of a key log to a file in ``folder``. The same secrets are always in the same file."""
    lines = keylog.lines()
    files, inside = file_system(below(folder, hashlib.sha256(lines).hexdigest()))
    files.create_dir(inside.rpartition("/")[0], recursive=True)
    with files.open_output_stream(inside) as stream:
        stream.write(lines)


def stored(folder: str, keylog: KeyLog | None) -> KeyLog | None:
    """Return a key log with the secrets in all files of a folder, and those of another key log.

    Args:
        folder: folder with the files that ``store`` wrote. If it does not exist, there are no such secrets.
        keylog: more secrets; None for none.

    Returns: the key log; None if there are no secrets and ``keylog`` is None.
    """
    known = KeyLog() if keylog is None else keylog.copy()
    add_stored(folder, known)
    return known if keylog is not None or len(known) else None


def add_stored(folder: str, keylog: KeyLog) -> None:
    """Add the secrets in all files of a folder to a key log.

    ``folder``: folder with the files that ``store`` wrote. If it does not exist, there are no such secrets.
    """
    files, inside = file_system(folder)
    for info in files.get_file_info(fs.FileSelector(inside, allow_not_found=True)):
        with files.open_input_stream(info.path) as stream:
            keylog.add(stream.read())
