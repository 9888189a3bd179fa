"""Descriptions of settings, read from the docstring of Settings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache

from mockbroker.base.settings import Settings, is_ours


def attributes(described: type) -> Mapping[str, str]:
    """Return the description of each attribute in the docstring of a class, by name.

    Empty if Python runs without docstrings (``-OO``).
    """
    _, _, section = (inspect.getdoc(described) or "").partition("Attributes:\n")
    meanings: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if start := re.match(r"    (\w+): (.*)", line):
            name = start[1]
            meanings[name] = start[2]
        elif line.startswith("        "):
            meanings[name] += " " + line.strip()
        elif line.strip():
            break
    return meanings


@cache
def _of_settings() -> Mapping[str, str]:
    return attributes(Settings)


def documentation(name: str | None) -> str | None:
    """Return the description of a setting by Kafka's name; None for a setting without effect or an unknown name."""
    if name is None or not is_ours(name):
        return None
    text = _of_settings().get(name.replace(".", "_"))
    return None if text is None else text.replace("``", "")
