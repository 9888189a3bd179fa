"""A cluster can be like an older Kafka."""

from __future__ import annotations

import pytest
from tools.play import Play

from kwire import ErrorCode as E
from kwire.schema import Versions
from mockbroker.release import KAFKA_3_9, KAFKA_4_2, RELEASES

BOTH = (("range", b""), ("roundrobin", b""))


def test_names():
    assert set(RELEASES) == {"3.9", "4.2"}


@pytest.mark.parametrize(
    ("key", "ours", "told"), [(0, "3-13", "3-11"), (8, "2-10", "2-9"), (11, "0-9", "0-9"), (15, "0-6", "0-5")]
)
def test_what_3_9_had(key, ours, told):
    assert str(KAFKA_3_9.limit(key, Versions.parse(ours))) == told
    assert str(KAFKA_4_2.limit(key, Versions.parse(ours))) == ours


@pytest.mark.parametrize(("java", "chosen"), [(True, "range"), (False, "roundrobin")])
def test_27_a_tie(java, chosen):
    play = Play(delay=1.0, java_coordinator=java)
    play.join("a", BOTH)
    play.join("b", tuple(reversed(BOTH)))
    play.wait(3.0)
    assert play.group.protocol == chosen


@pytest.mark.parametrize(("java", "alive"), [(True, False), (False, True)])
def test_33_a_sync_in_stable_renews_the_session(java, alive):
    play = Play(java_coordinator=java)
    play.stable("a", session=1.2)
    play.wait(0.8)
    play.sync("a")
    play.wait(0.8)
    assert (play.heartbeat("a") is E.NONE) is alive


@pytest.mark.parametrize(("java", "seconds"), [(True, 2.0), (False, 1.0)])
def test_42_a_later_generation_stretches_the_delay(java, seconds):
    play = Play(delay=1.0, java_coordinator=java)
    play.stable("x")
    play.leave("x")
    begin = play.now
    ask = play.join("a")
    play.wait(0.4)
    play.join("b")
    play.wait(5.0)
    assert ask.at - begin == pytest.approx(seconds)
