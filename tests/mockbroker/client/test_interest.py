from __future__ import annotations

import re

import pytest

from mockbroker.client.errors import IllegalUse
from mockbroker.client.interest import Interest, Mode


def test_topics() -> None:
    interest = Interest()
    interest.subscribe(["t", "u"])
    assert (interest.mode, interest.topics, interest.subscribed, interest.version) == (Mode.TOPICS, {"t", "u"}, True, 1)
    interest.subscribe(["u", "t"])
    assert interest.version == 1, "the same ones"
    interest.subscribe(["t"])
    assert interest.version == 2


def test_a_pattern_and_what_it_finds() -> None:
    interest = Interest()
    interest.subscribe(re.compile("t.*"))
    assert (interest.mode, interest.topics, interest.version) == (Mode.PATTERN, frozenset(), 0)
    interest.set_topics(["t1"])
    assert (interest.topics, interest.version) == ({"t1"}, 1)
    interest.subscribe(["u"])
    assert (interest.mode, interest.pattern, interest.topics) == (Mode.TOPICS, None, {"u"})


def test_subscribe_and_assign_exclude_each_other() -> None:
    interest = Interest()
    interest.subscribe(["t"])
    with pytest.raises(IllegalUse, match="exclude each other"):
        interest.assign()
    interest.nothing()
    assert (interest.mode, interest.topics, interest.subscribed) == (Mode.NOTHING, frozenset(), False)
    interest.assign()
    assert (interest.mode, interest.subscribed) == (Mode.PARTITIONS, False)
    with pytest.raises(IllegalUse, match="exclude each other"):
        interest.subscribe(["t"])
