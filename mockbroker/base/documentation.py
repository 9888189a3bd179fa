"""Descriptions of the broker settings, read from the docstring of Settings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache

from mockbroker.base.settings import Settings, is_ours


def attributes(described: type) -> Mapping[str, str]:
    """Return the descriptions in the section ``Attributes`` of a class's docstring, by attribute name.

    The result is empty if Python runs without docstrings (``-OO``). ``described``: the class.
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
    """Return the description of a broker setting; None if the setting is not a field of Settings, or if Python runs
    without docstrings.

    ``name``: Kafka's name of the setting; None has no description.
    """
    if name is None or not is_ours(name):
        return None
    text = _of_settings().get(name.replace(".", "_"))
    return None if text is None else text.replace("``", "")
