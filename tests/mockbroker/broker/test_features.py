"""Updates of features. Kafka's behaviour: the conversations features_validated and features_updated."""

from __future__ import annotations

import pytest

from mockbroker.base.release import KAFKA_3_9, KAFKA_4_2
from mockbroker.broker.features import SAFE_DOWNGRADE, UPGRADE, finalized, update_error

CONTROLLER = 1


def test_feature_of_level_0_is_not_finalized() -> None:
    levels = finalized(KAFKA_4_2, {"share.version": 0, "metadata.version": 28, "of.another.release": 1})
    assert levels == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "metadata.version": 28,
        "streams.version": 1,
        "transaction.version": 2,
    }


@pytest.mark.parametrize(
    ("name", "level", "kind", "error"),
    [
        ("share.version", 1, UPGRADE, ""),
        ("share.version", 0, SAFE_DOWNGRADE, ""),
        ("share.version", 0, UPGRADE, "setting the upgrade type"),
        ("share.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("metadata.version", 22, SAFE_DOWNGRADE, "it might delete metadata information"),
        ("nope", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("nope", -1, UPGRADE, "A feature version cannot be less than 0."),
        ("nope", -1, 0, "The controller does not support the given upgrade type."),
    ],
)
def test_update_is_validated(name: str, level: int, kind: int, error: str) -> None:
    features = finalized(KAFKA_4_2, {})
    text = update_error(KAFKA_4_2, features, name, level, kind, CONTROLLER)
    assert (text is None) is (error == "")
    assert error in (text or "")


def test_kraft_version_cannot_be_downgraded() -> None:
    features = finalized(KAFKA_4_2, {"kraft.version": 1})
    error = update_error(KAFKA_4_2, features, "kraft.version", 0, SAFE_DOWNGRADE, CONTROLLER)
    assert (error or "").endswith("Can't downgrade the version of this feature.")


def test_features_of_a_release_before_4_0() -> None:
    assert finalized(KAFKA_3_9, {"share.version": 1}) == {"metadata.version": 21}
