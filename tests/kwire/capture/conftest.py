from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., str]:
    """Bytes as a file; its path."""

    def write(data: bytes, name: str = "trace.pcap") -> str:
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    return write
