"""The table of bad inputs, fixtures/bad_inputs.md."""

from __future__ import annotations

from golden import ROOT


def inputs(section: str) -> list[str]:
    """Return the names of the inputs in a section of the table.

    Args:
        section: Heading of the section, such as ``Framing and transport``.
    """
    text = (ROOT / "fixtures" / "bad_inputs.md").read_text("utf-8")
    _, _, rest = text.partition(f"\n## {section}\n")
    lines = [line for line in rest.partition("\n## ")[0].splitlines() if line.startswith("| ")]
    return [line.split(" | ")[0].removeprefix("| ") for line in lines[1:]]
