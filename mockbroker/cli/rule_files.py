"""Files of fault rules, in TOML, YAML or JSON, for ``mockbroker serve --faults`` and ``mockbroker ctl faults add``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kwire.extras import missing

if TYPE_CHECKING:
    from mockbroker.faults.sections import Problem

KEY = "fault"  # of the list of rules, in TOML [[fault]]
SUFFIXES = (".toml", ".yaml", ".yml", ".json")
PLACE = r"(?s)faults\[(\d+)\]\.?(.*)"  # paths of problems with initial rules


class RuleFileError(ValueError):
    """The error for a file of fault rules that cannot be read, or that has no valid rules in TOML, YAML or JSON."""


def read_rules(path: Path) -> list[Any]:
    """Return the fault rules in a file, in the JSON form of the control API. The rules are not checked.

    ``path``: the file; its suffix names the format (.toml, .yaml, .yml or .json).

    Raises:
        RuleFileError: The file cannot be read, or its content is not valid.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise RuleFileError(f"the format is unknown: use a name that ends in {', '.join(SUFFIXES)}")
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RuleFileError(f"the file is not UTF-8: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise RuleFileError(f"cannot read the file: {error.strerror}") from error
    rules = rules_of(_parsed(suffix, text))
    return rules if suffix in (".toml", ".json") else [_with_on(rule) for rule in rules]


def rules_of(content: Any) -> list[Any]:
    """Return the list of rules in the decoded content of a file.

    ``content``: a list of rules, an object with the list under the key ``fault``, or one rule.

    Raises:
        RuleFileError: The content has none of these forms.
    """
    if isinstance(content, list):
        return content
    if isinstance(content, dict) and isinstance(content.get(KEY), list):
        if others := [str(name) for name in content if name != KEY]:
            raise RuleFileError(f"unknown key {others[0]!r}: the only top-level key of a rule file is {KEY}")
        return list(content[KEY])
    if isinstance(content, dict) and {"match", "action"}.intersection(content):
        return [content]
    raise RuleFileError(
        f"no rules: expected a list with the key {KEY} (in TOML [[{KEY}]]), or a rule with the keys match and action"
    )


def by_number(problems: Iterable[Problem]) -> list[str]:
    """Return problems of fault rules as texts. Each text contains the number of its rule in the file, from 1."""
    texts = []
    for each in problems:
        found = re.fullmatch(PLACE, each.path)
        text = str(replace(each, path=found[2]) if found else each)
        texts.append(f"rule {int(found[1]) + 1}: {text}" if found else text)
    return texts


def _parsed(suffix: str, text: str) -> Any:
    try:
        if suffix == ".toml":
            import tomllib  # on demand, as json: most commands read no file of rules

            return tomllib.loads(text)
        if suffix == ".json":
            import json

            return json.loads(text)
        return _yaml(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, RuleFileError):
            raise
        raise RuleFileError(f"the file is not valid {'TOML' if suffix == '.toml' else 'JSON'}: {error}") from error


def _with_on(rule: Any) -> Any:
    """Return a rule whose condition ``on`` has its name again: in YAML 1.1, the plain scalar ``on`` is the value true.

    ``rule``: the rule in the JSON form.
    """
    match rule:
        case {"match": {True: _} as conditions}:
            return {**rule, "match": {"on" if key is True else key: value for key, value in conditions.items()}}
        case _:
            return rule


def _yaml(text: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise RuleFileError(f"{missing(error, 'yaml')}, or use TOML or JSON") from error
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise RuleFileError(f"the file is not valid YAML: {' '.join(str(error).split())}") from error
