"""The documentation site: the pages of docs/, an API reference from docstrings, and an HTTP reference from OpenAPI.

    python tools/documentation_site.py dist/site

writes the sources of the site beside the folder (dist/site.source) and builds the site with zensical. Files of the
repository that a page links to are part of the site. Then it checks that every link and every anchor exists, and prints
the broken ones; exit code 1 if there are any. It needs the extra ``site``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

import kwire

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(\))")
MODULES = {  # public modules, and the file that defines their names
    "kwire": "kwire/__init__.pyi",
    "kwire.assignors": "kwire/assignors/__init__.py",
    "kwire.messages": "kwire/messages/__init__.py",
    "mockbroker": "mockbroker/__init__.pyi",
    "mockbroker.consumer": "mockbroker/consumer.py",
}
GUIDES = "connect control-from-the-shell security keep-data transactions captures frames shell"
NAVIGATION: Mapping[str, str] = {  # title of a section to its pages
    "Start": "README tutorial pytest other-languages install",
    "How do I test": "how-to/README how-to/test-*",
    "Guides": f"testing failover faults presets live recordings proxy torture fuzzing import consumer migration ci "
    f"compare {' '.join(f'how-to/{name}' for name in GUIDES.split())}",
    "Reference": "api/* http-api control-api live-page command-line settings errors findings pipeline spark clients "
    "conformance limits stability python-api performance coordinator",
    "Messages": "reference/README reference/*",
    "Explanation": "design simulation history draft assurance mutants mutants_by_file planted_bugs security sources "
    "glossary",
    "Project": "files/CHANGELOG files/CONTRIBUTING files/SECURITY",
}


# --- the sources of the site ---


def write_sources(source: Path) -> None:
    """Write all pages into a folder."""
    shutil.rmtree(source, ignore_errors=True)
    pages = source / "pages"
    shutil.copytree(ROOT / "docs", pages)
    for name, text in (*reference_pages(), ("http-api.md", "\n".join(http_reference()) + "\n")):
        (pages / name).parent.mkdir(exist_ok=True)
        (pages / name).write_text(text, "utf-8")
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        copy(ROOT / name, pages)
    pending = {
        path: ROOT / "docs" / path.relative_to(pages) for path in pages.rglob("*.md") if "files" not in path.parts
    }
    done: set[Path] = set()
    while pending:
        page, origin = pending.popitem()
        done.add(page)
        rewrite(page, origin, pages)
        for copied in (pages / "files").rglob("*.md"):
            if copied not in done and copied not in pending:
                pending[copied] = ROOT / copied.relative_to(pages / "files")
    (pages / "index.md").write_text((pages / "README.md").read_text("utf-8"), "utf-8")
    for readme in list(pages.rglob("README.md")):
        if "files" not in readme.parts and readme.parent != pages:
            readme.replace(readme.with_name("index.md"))
    (source / "zensical.toml").write_text(configuration(pages), "utf-8")


def copy(path: Path, pages: Path) -> Path:
    """Copy a file of the repository into the site; return the path of the copy."""
    target = pages / "files" / path.relative_to(ROOT)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return target


def rewrite(page: Path, origin: Path, pages: Path) -> None:
    """Change the links of a page so that they lead to pages and files of the site.

    Args:
        page: the page in the site.
        origin: the page in the repository.
        pages: folder of all pages of the site.
    """

    def changed(match: re.Match[str]) -> str:
        url, anchor = urldefrag(match[2])
        if not url or urlsplit(url).scheme:
            return match[0]
        target = (origin.parent / unquote(url)).resolve()
        if not target.exists() or not target.is_relative_to(ROOT):
            return match[0]  # reported as a broken link
        if target.is_dir():
            return match[1].removeprefix("!").strip("[(]") if not (target / "README.md").exists() else match[0]
        inside = target.is_relative_to(ROOT / "docs")
        found = pages / target.relative_to(ROOT / "docs") if inside else copy(target, pages)
        if inside and found.name == "README.md":
            found = found.with_name("index.md")
        relative = Path(*[".."] * len(page.parent.relative_to(pages).parts)) / found.relative_to(pages)
        return f"{match[1]}{relative.as_posix()}{'#' + anchor if anchor else ''}{match[3]}"

    page.write_text(LINK.sub(changed, page.read_text("utf-8")), "utf-8")


def configuration(pages: Path) -> str:
    """Return the configuration of zensical."""
    sections, listed = [], set()
    for title, patterns in NAVIGATION.items():
        found: list[str] = []
        for pattern in patterns.split():
            names = sorted(path.relative_to(pages).as_posix() for path in pages.glob(f"{pattern}.md"))
            if pattern.endswith("README"):
                names = [f"{pattern.removesuffix('README')}index.md"]
            found += [name for name in names if name not in listed and not name.endswith("README.md")]
            listed |= set(names)
        sections.append(f"  {{ {json.dumps(title)} = {json.dumps(found)} }},")
    return "\n".join(
        [
            "[project]",
            'site_name = "mockbroker and kwire"',
            'site_description = "A Kafka cluster for tests, and every Kafka wire message in every version"',
            'docs_dir = "pages"',
            'site_dir = "site"',
            "use_directory_urls = false",
            "nav = [",
            *sections,
            "]",
            "[project.extra.version]",
            'provider = "mike"',  # the theme then shows the versions of ../versions.json, which site_versions.py writes
            'default = "latest"',
            "[project.theme]",
            'language = "en"',
            "font = false",  # those of the system: no request to another host
            f"features = {json.dumps(FEATURES)}",
            *(line for palette in PALETTES for line in palette),
            "[project.markdown_extensions]",
            "admonition = {}",
            "attr_list = {}",
            "tables = {}",
            "toc.permalink = true",
            "pymdownx.highlight.pygments_lang_class = true",
            "pymdownx.superfences = {}",
            "",
        ]
    )


def palette(media: str, scheme: str, icon: str, title: str) -> list[str]:
    lines = [
        "[[project.theme.palette]]",
        f'media = "{media}"',
        f'toggle.icon = "lucide/{icon}"',
        f'toggle.name = "{title}"',
    ]
    return [*lines, *([f'scheme = "{scheme}"'] if scheme else [])]


FEATURES = ["content.code.copy", "navigation.indexes", "navigation.sections", "navigation.top", "search.highlight"]
PALETTES = (
    palette("(prefers-color-scheme)", "", "sun-moon", "Light mode"),
    palette("(prefers-color-scheme: light)", "default", "sun", "Dark mode"),
    palette("(prefers-color-scheme: dark)", "slate", "moon", "As in the system"),
)


# --- the Python reference ---


def reference_pages() -> Iterator[tuple[str, str]]:
    """Yield a page for each public module: its names with signatures and docstrings, as griffe reads them."""
    import griffe  # pyright: ignore[reportMissingImports]  # extra site

    loader = griffe.GriffeLoader(docstring_parser="google", search_paths=[str(ROOT)])
    for package in ("kwire", "mockbroker"):
        loader.load(package)
    loader.resolve_aliases(external=False)
    for name in MODULES:
        module = loader.modules_collection[name]
        lines = [f"# {name}", "", "From the docstrings of the code.", ""]
        lines += documentation(module)
        names = {each: member for each, member in module.members.items() if public(each, member)}
        for each in sorted(names, key=str.lower):
            lines += described(each, names[each], 2)
        yield f"api/{name}.md", "\n".join(lines) + "\n"


def public(name: str, member: Any) -> bool:
    """Return whether a member of a module is a public class or function."""
    if name.startswith("_"):
        return False
    if member.is_alias and member.target_path.split(".")[0] not in ("kwire", "mockbroker"):
        return False  # of another distribution, which is not loaded
    target = member.final_target if member.is_alias else member
    return bool(target.is_class or target.is_function) and bool(target.docstring)


def described(name: str, member: Any, level: int) -> Iterator[str]:
    target = member.final_target if member.is_alias else member
    yield f"{'#' * level} {name}\n"
    if target.is_function:
        yield f"```python\n{signature(name, target)}\n```\n"
    elif target.is_class:
        bases = ", ".join(str(base) for base in target.bases)
        yield f"```python\nclass {name}{f'({bases})' if bases else ''}\n```\n"
    yield from documentation(target)
    if target.is_class:
        for each, inner in target.all_members.items():
            if not each.startswith("_") and not inner.is_attribute and not inner.is_class:
                found = inner.final_target if inner.is_alias else inner
                if found.is_function and found.docstring:
                    yield from described(f"{name}.{each}", inner, level + 1)


def signature(name: str, function: Any) -> str:
    parts, keyword_only = [], False
    for parameter in function.parameters:
        if parameter.name == "self":
            continue
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(str(parameter.kind.value), "")
        keyword_only |= stars == "*"
        if str(parameter.kind.value) == "keyword-only" and not keyword_only:
            parts.append("*")
            keyword_only = True
        annotation = f": {parameter.annotation}" if parameter.annotation else ""
        default = f" = {parameter.default}" if parameter.default is not None and not stars else ""
        parts.append(f"{stars}{parameter.name}{annotation}{default}")
    line = f"{name.rpartition('.')[2]}({', '.join(parts)}) -> {function.returns}"
    if len(line) > 100:
        inside = "".join(f"    {part},\n" for part in parts)
        line = f"{name.rpartition('.')[2]}(\n{inside}) -> {function.returns}"
    return ("async " if "async" in function.labels else "") + f"def {line}"


def documentation(item: Any) -> Iterator[str]:
    """Yield the sections of a docstring as Markdown."""
    for section in item.docstring.parsed if item.docstring else ():
        match section.kind.value:
            case "text":
                yield markdown(section.value) + "\n"
            case "parameters" | "attributes" | "other parameters":
                yield f"| {section.kind.value.rstrip('s')} | meaning |\n|---|---|"
                yield from (f"| `{each.name}` | {cell(each.description)} |" for each in section.value)
                yield ""
            case "raises":
                yield "| raises | when |\n|---|---|"
                yield from (f"| `{each.annotation}` | {cell(each.description)} |" for each in section.value)
                yield ""
            case "returns" | "yields":
                yield from (f"{section.kind.value.capitalize()}: {cell(each.description)}\n" for each in section.value)
            case "admonition":
                yield f"{section.value.kind.capitalize()}: {markdown(section.value.contents)}\n"


def markdown(text: str) -> str:
    """Return the text of a docstring as Markdown: code is in single backquotes."""
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def cell(text: str) -> str:
    return markdown(" ".join(text.split())).replace("|", "\\|")


# --- the HTTP reference ---


def http_reference() -> Iterator[str]:
    from mockbroker.control.table import openapi  # the extra http

    document = json.loads(json.dumps(openapi()))
    yield f"# HTTP API\n\nFrom the OpenAPI {document['openapi']} document that `GET /openapi.json` returns."
    yield "[Control API](control-api.md) explains access, lists, times and errors.\n"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"## {method.upper()} {path}\n"
            yield f"{operation.get('summary') or operation.get('description') or ''}\n"
            if parameters := operation.get("parameters"):
                yield "| parameter | in | type | meaning |\n|---|---|---|---|"
                for each in parameters:
                    kind = each.get("schema", {})
                    text = kind.get("type") or " or ".join(map(str, kind.get("enum", []))) or "text"
                    meaning = cell(each.get("description", ""))
                    yield f"| `{each['name']}` | {each['in']} | {cell(str(text))} | {meaning} |"
                yield ""
            if body := operation.get("requestBody"):
                yield f"Request body:\n\n```json\n{json.dumps(first_schema(body), indent=2)}\n```\n"
            yield "| status | meaning |\n|---|---|"
            yield from (
                f"| {code} | {cell(each.get('description', ''))} |" for code, each in operation["responses"].items()
            )
            yield ""
    yield "## Schemas\n"
    for name, schema in document["components"]["schemas"].items():
        yield f"### {name}\n\n```json\n{json.dumps(schema, indent=2)}\n```\n"


def first_schema(holder: Mapping[str, Any]) -> object:
    """Return the schema of the first media type of a body."""
    return next((each.get("schema", {}) for each in holder.get("content", {}).values()), {})


# --- links ---


class Page(HTMLParser):
    """The links and the anchors of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("a", "img", "link", "script") and (url := given.get("href" if tag in ("a", "link") else "src")):
            self.links.add(url)
        self.anchors |= {given[key] or "" for key in ("id", "name") if key in given}


def broken_links(site: Path) -> Iterator[str]:
    """Yield a line for each link to a page, file or anchor that does not exist, but not for links to other sites."""
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        for link in sorted(page.links):
            url, anchor = urldefrag(link)
            if urlsplit(url).scheme or url.startswith("//"):
                continue
            target = (path.parent / unquote(url.partition("?")[0])).resolve() if url else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.relative_to(site)}: {link}: no such page"
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                yield f"{path.relative_to(site)}: {link}: no such anchor"


def main(folder: Path) -> int:
    source = folder.parent / f"{folder.name}.source"
    write_sources(source)
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean"]
    subprocess.run(command, cwd=source, check=True)  # noqa: S603
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source / "site", folder)
    broken = list(broken_links(folder))
    report(broken)
    number = len(list(folder.rglob("*.html")))
    print(f"{folder}: {number} pages of version {kwire.__version__}, {len(broken)} broken links")
    return bool(broken)


def report(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
