"""The catalogue of all torture cases: the named cases, and the cases with malformed responses.

Each kind of malformation, such as an array that is too long, gives one case for each API to which it can be applied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from kwire.messages import APIS
from mockbroker.faults.applicability import malform_obstacle
from mockbroker.faults.malformed import FORMS, Number
from mockbroker.lab.torture.case import Case
from mockbroker.lab.torture.cases import cluster, data, errors, frames, groups, handshakes, security

LIBRDKAFKA_5577 = "https://github.com/confluentinc/librdkafka/issues/5577"
PUBLISHED = {
    "huge_array-JoinGroup": "https://github.com/elastic/beats/issues/20734",
    "null_array-ApiVersions": LIBRDKAFKA_5577,
}


def _pairs() -> Iterator[Case]:
    for form, declared in FORMS.items():
        values = [str(each.default) for each in declared.parameters.values() if isinstance(each, Number)]
        malformation = ": ".join([declared.description, *values])
        for key in frames.STEPS:
            api = APIS[key].name
            if malform_obstacle(key, form) is None:
                yield Case(
                    name=f"{form}-{api}",
                    step=api,
                    description=f"answers {api} with a malformed response: {malformation}",
                    rules=({"api": api, "malform": form, "times": "always"},),
                    published=PUBLISHED.get(f"{form}-{api}", ""),
                )


NAMED = (*errors.CASES, *frames.CASES, *cluster.CASES, *groups.CASES, *data.CASES, *security.CASES, *handshakes.CASES)
PAIRS = tuple(_pairs())
CASES: Mapping[str, Case] = {case.name: case for case in (*NAMED, *PAIRS)}


def select(patterns: Sequence[str] = ("*",), steps: Collection[str] = ()) -> list[Case]:
    """Return the cases whose name matches one of the patterns.

    Args:
        patterns: name patterns with the wildcards ``*`` and ``?``.
        steps: names of APIs, or CONNECT, TLS or EVERY. Only cases whose ``step`` is in this collection are returned. If
            the collection is empty, the step does not matter.
    """
    named = [case for case in CASES.values() if any(fnmatchcase(case.name, each) for each in patterns)]
    return [case for case in named if not steps or case.step in steps]


def unmatched(patterns: Sequence[str]) -> str | None:
    """Return the first pattern that matches the name of no case; None if each matches one.

    Args:
        patterns: name patterns with the wildcards ``*`` and ``?``.
    """
    return next((each for each in patterns if not select([each])), None)
