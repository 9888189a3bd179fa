from __future__ import annotations

import re

import pytest

from mockbroker.client.errors import IllegalUse
from mockbroker.client.subscription import SubscriptionState, SubscriptionType


def test_version_grows_when_topics_change() -> None:
    subscription = SubscriptionState()
    subscription.subscribe(["t", "u"])
    assert (subscription.type, subscription.topics, subscription.subscribed, subscription.version) == (
        SubscriptionType.AUTO_TOPICS,
        {"t", "u"},
        True,
        1,
    )
    subscription.subscribe(["u", "t"])
    assert subscription.version == 1, "the same ones"
    subscription.subscribe(["t"])
    assert subscription.version == 2


def test_topics_of_a_pattern() -> None:
    subscription = SubscriptionState()
    subscription.subscribe(re.compile("t.*"))
    assert (subscription.type, subscription.topics, subscription.version) == (
        SubscriptionType.AUTO_PATTERN,
        frozenset(),
        0,
    )
    subscription.set_topics(["t1"])
    assert (subscription.topics, subscription.version) == ({"t1"}, 1)
    subscription.subscribe(["u"])
    assert (subscription.type, subscription.pattern, subscription.topics) == (SubscriptionType.AUTO_TOPICS, None, {"u"})


def test_subscribe_and_assign_exclude_each_other() -> None:
    subscription = SubscriptionState()
    subscription.subscribe(["t"])
    with pytest.raises(IllegalUse, match="unsubscribe"):
        subscription.assign()
    subscription.clear()
    assert (subscription.type, subscription.topics, subscription.subscribed) == (
        SubscriptionType.NONE,
        frozenset(),
        False,
    )
    subscription.assign()
    assert (subscription.type, subscription.subscribed) == (SubscriptionType.USER_ASSIGNED, False)
    with pytest.raises(IllegalUse, match="unsubscribe"):
        subscription.subscribe(["t"])
