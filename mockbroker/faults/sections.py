"""Reading of JSON objects key by key. All problems are collected; reading does not stop at the first problem."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from reprlib import repr as shorten
from typing import Any

from kwire.lazy_dataclass import dataclass
from mockbroker.base.errors import FaultRuleError
from mockbroker.faults.globs import compile_glob

LIKENESS = 0.6  # least similarity of a suggested name (difflib ratio)
SUGGESTED = 3  # names that are suggested at most
LISTED = 10  # if there are at most so many names, all of them are suggested when none is similar
LONGEST_TEXT = 1_000  # characters of a text in a rule
UNKNOWN_LISTED = 100  # unknown keys of an object that get a problem: an object may have a hundred thousand
NOTHING: Mapping[str, str] = {}
INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in the JSON form of a fault rule, or a warning about the rule.

    Attributes:
        path: Position in the JSON form, such as ``match.api[0]``; "" for the rule itself.
        detail: Description of the problem, with the value.
        possible: Possible values or keys, the most similar first.
    """

    path: str
    detail: str
    possible: tuple[str, ...] = ()

    def inside(self, place: str) -> Problem:
        """Return a copy of the problem whose path is relative to a larger JSON value that contains the rule.

        ``place``: position of the rule in the larger JSON value, such as ``faults[0]``. The new path begins with
        ``place``.
        """
        return replace(self, path=f"{place}.{self.path}" if self.path else place)

    def __str__(self) -> str:
        what = f"{self.path}: {self.detail}" if self.path else self.detail
        return f"{what} (possible: {', '.join(self.possible)})" if self.possible else what


class InvalidRule(FaultRuleError):
    """The error for a rule that is not valid. ``problems``: all problems of the rule."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)

    def __reduce__(self) -> tuple[type[InvalidRule], tuple[Sequence[Problem]]]:
        """Return how copy and pickle restore the error."""
        return type(self), (self.problems,)


class Section:
    """A JSON object that is read key by key. An invalid value is recorded as a problem and treated as absent.

    Attributes:
        form: The object; empty if the JSON value is not an object.

    Args:
        form: The JSON value.
        path: Path of the value in the rule.
        problems: List to which problems are appended.
    """

    def __init__(self, form: object, path: str, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        self._known: list[str] = []
        self.form: dict[str, Any] = {}
        if isinstance(form, dict):
            self.form = form
        else:
            self.problems.append(Problem(path, f"expected an object, got {shorten(form)}"))

    def __contains__(self, key: str) -> bool:
        """Return whether the key is present, and mark it as known."""
        self._known.append(key)
        return key in self.form

    def raw(self, key: str) -> Any:
        return self.form[key] if key in self else None

    def raw_or(self, key: str, default: object) -> Any:
        return self.form[key] if key in self else default

    def accept(self, keys: Iterable[str]) -> None:
        """Mark keys as known although their values are not read, so that ``refuse_unknown`` records no problem for
        them.
        """
        self._known += keys

    def at(self, key: str) -> str:
        """Return the path of a key from the root of the rule, such as ``match.api``."""
        return ".".join(part for part in (self.path, key) if part)

    def refuse(self, key: str, detail: str, possible: Collection[str] = ()) -> None:
        self.problems.append(Problem(self.at(key), detail, tuple(possible)))

    def text(self, key: str) -> str | None:
        if key not in self:
            return None
        value = self.form[key]
        if not isinstance(value, str):
            self.refuse(key, f"expected a string, got {shorten(value)}")
        elif len(value) > LONGEST_TEXT:
            self.refuse(key, f"the string has {len(value)} characters (limit: {LONGEST_TEXT})")
        else:
            return value
        return None

    def glob(self, key: str) -> str | None:
        value = self.text(key)
        if value is not None:
            try:
                compile_glob(value)
            except ValueError as error:
                self.refuse(key, str(error))
                return None
        return value

    def choice(self, key: str, options: Collection[str]) -> str | None:
        value = self.text(key)
        if value is None or value in options:
            return value
        self.refuse(key, f"unknown value {shorten(value)}", suggestions(value, options))
        return None

    def integer(self, key: str, lowest: int, highest: int = INT32_MAX) -> int | None:
        if key not in self:
            return None
        value = self.form[key]
        if not is_integer(value):
            self.refuse(key, f"expected an integer, got {shorten(value)}")
        elif not lowest <= value <= highest:
            self.refuse(key, f"{value} is out of range ({lowest} to {highest})")
        else:
            return int(value)
        return None

    def number(self, key: str, lowest: float, highest: float) -> float | None:
        if key not in self:
            return None
        value = self.form[key]
        if not is_integer(value) and not isinstance(value, float):
            self.refuse(key, f"expected a number, got {shorten(value)}")
        elif not lowest <= value <= highest:
            self.refuse(key, f"{value} is out of range ({lowest} to {highest})")
        else:
            return float(value)
        return None

    def flag(self, key: str) -> bool | None:
        value = self.raw(key)
        if value is None and key not in self.form:
            return None
        if isinstance(value, bool):
            return value
        self.refuse(key, f"expected true or false, got {shorten(value)}")
        return None

    def refuse_unknown(self, needs: Mapping[str, str] = NOTHING) -> None:
        """Record a problem for each key of the object that was neither read nor accepted, at most UNKNOWN_LISTED.

        ``needs``: key that is valid only together with a second key -> the second key, for the text of the problem.
        """
        known = dict.fromkeys(self._known)
        for key in islice((each for each in self.form if each not in known), UNKNOWN_LISTED):
            if key in needs:
                self.refuse(key, f"{key} has an effect only with {needs[key]}")
            else:
                self.refuse(str(key), "unknown key", suggestions(str(key), known))


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def suggestions(name: str, options: Collection[str]) -> tuple[str, ...]:
    """Return the options whose names are similar to a wrong name.

    If no option is similar, return all options, or none if there are many.

    Args:
        name: The wrong name.
        options: The valid names.
    """
    by_plain = {option.lower(): option for option in options}
    if name.lower() in by_plain:
        return (by_plain[name.lower()],)
    near = get_close_matches(name.lower(), by_plain, n=SUGGESTED, cutoff=LIKENESS)
    return tuple(by_plain[one] for one in near) or (tuple(options) if len(options) <= LISTED else ())
