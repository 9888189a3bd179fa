"""The pictures docs/layers-kwire.svg and docs/layers-mockbroker.svg: the layers of each package, drawn from its source.

A name is one layer above the highest name that it imports, so every import points downwards. The text beside a name is
the first sentence of its docstring. ``tools/usage_pages.py`` writes the files.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).parent.parent
LINE, PADDING, GAP = 18, 7, 6  # pixels: height of a line, space inside a band, space between two bands
WIDTH, LEFT, TEXT = 860, 16, 140  # pixels: of the picture, of the names, of their descriptions
COLUMNS = 112  # characters of a description in one line
ENTRY_POINTS = ("__init__", "__main__")
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.name { font-weight: 600 }
rect { fill: #eaf2fb; stroke: #9dbfe3 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } rect { fill: #14263a; stroke: #35597f } }
"""


def picture(package: str) -> str:
    """Return the SVG of a package: a band for each layer, the highest layer first."""
    bands = [_entries(package, names) for names in reversed(layers(package))]
    height = sum(_height(band) + GAP for band in bands) + GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
        f"<title>The layers of {package}: every name imports only names of lower layers</title>"
        f"<style>{STYLE}</style>\n" + "\n".join(_drawn(bands)) + "\n</svg>\n"
    )


def layers(package: str) -> list[list[str]]:
    """Return the modules and folders of a package by layer, the lowest first. Raises: ValueError at a cycle."""
    imported = _imports(package)
    layer: dict[str, int] = {}

    def place(name: str, path: tuple[str, ...]) -> int:
        if name in path:
            raise ValueError(f"{package} has a cycle of imports: {' -> '.join([*path, name])}")
        if name not in layer:
            layer[name] = 1 + max((place(below, (*path, name)) for below in imported[name]), default=-1)
        return layer[name]

    for name in sorted(imported):
        place(name, ())
    return [sorted(name for name in layer if layer[name] == number) for number in range(max(layer.values()) + 1)]


def _imports(package: str) -> Mapping[str, set[str]]:
    """Return the names at the top of a package, each with those that it imports."""
    tops = {path.stem for path in (ROOT / package).iterdir() if _source(path).is_file()} - set(ENTRY_POINTS)
    imported: dict[str, set[str]] = {name: set() for name in tops}
    for name in tops:
        folder = ROOT / package / name
        for source in folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")]:
            imported[name] |= _imported_names(package, source) & tops - {name}
    return imported


def _source(path: Path) -> Path:
    """Return the file with the docstring of a module or folder; for another file, a path that does not exist."""
    return path / "__init__.py" if path.is_dir() else path if path.suffix == ".py" else path / "none"


def _imported_names(package: str, source: Path) -> set[str]:
    dotted = set()
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            dotted |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            dotted |= {f"{node.module}.{each.name}" for each in node.names}
    return {name.split(".")[1] for name in dotted if name.startswith(f"{package}.")}


def _entries(package: str, names: list[str]) -> Mapping[str, list[str]]:
    """Return the names of a layer, each with the lines of its description."""
    entries = defaultdict(list)
    for name in names:
        folder = ROOT / package / name
        source = _source(folder if folder.is_dir() else folder.with_suffix(".py"))
        docstring = ast.get_docstring(ast.parse(source.read_text("utf-8"))) or ""
        sentence = docstring.replace("``", "").partition("\n\n")[0].replace("\n", " ").partition(". ")[0]
        entries[name] = wrap(sentence.rstrip("."), COLUMNS) or [""]
    return entries


def _height(band: Mapping[str, list[str]]) -> int:
    return sum(map(len, band.values())) * LINE + 2 * PADDING


def _drawn(bands: list[Mapping[str, list[str]]]) -> Iterator[str]:
    top = GAP
    for band in bands:
        yield f'<rect x="2" y="{top}" width="{WIDTH - 4}" height="{_height(band)}" rx="5"/>'
        y = top + PADDING + 13
        for name, lines in band.items():
            yield f'<text class="name" x="{LEFT}" y="{y}">{escape(name)}</text>'
            for line in lines:
                yield f'<text x="{TEXT}" y="{y}">{escape(line)}</text>'
                y += LINE
        top += _height(band) + GAP
