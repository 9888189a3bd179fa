"""The man pages of all commands."""

from __future__ import annotations

import re

import man_pages

from kwire.cli import VERBS as KWIRE
from mockbroker.cli import VERBS as MOCKBROKER

PAGES = dict(man_pages.pages())


def test_every_command_has_a_page() -> None:
    commands = {f"{name}-{verb}.1" for name, verbs in (("kwire", KWIRE), ("mockbroker", MOCKBROKER)) for verb in verbs}
    assert {*commands, "kwire.1", "mockbroker.1", "mockbroker-ctl-faults-add.1"} <= set(PAGES)


def test_a_page_has_its_sections_in_order() -> None:
    text = PAGES["mockbroker-ctl.1"]
    sections = re.findall(r"^\.SH (.*)$", text, re.MULTILINE)
    assert sections == ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "SEE ALSO"]
    assert r"mockbroker\-ctl\-faults" in text
    assert r"\fB\-\-url URL\fR" in text


def test_no_text_is_taken_for_a_request_of_roff() -> None:
    known = {"TH", "SH", "PP", "TP", "nf", "fi"}
    for name, text in PAGES.items():
        requests = re.findall(r"^[.'](\w*)", text, re.MULTILINE)
        assert set(requests) <= known, name
