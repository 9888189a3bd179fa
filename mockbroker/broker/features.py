"""The finalized features of the cluster, and the validation of feature updates (KIP-584, KIP-778).

The functions have no side effects.

Source: Kafka's FeatureControlManager (4.2), as recorded in fixtures/conversations (features_updated).
"""

from __future__ import annotations

from collections.abc import Mapping

from mockbroker.base.release import METADATA_VERSION, Release
from mockbroker.base.texts import shortened

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3  # types of an update
KRAFT_VERSION = "kraft.version"
GROUP_VERSION = "group.version"
LEAST_METADATA_VERSION = 23  # 4.0-IV1: below it, a downgrade would lose metadata


def finalized(release: Release, changed: Mapping[str, int]) -> dict[str, int]:
    """Return the finalized level of each feature. As in ApiVersions, features of level 0 are left out.

    Args:
        release: The emulated Kafka release.
        changed: Feature name -> level that UpdateFeatures has set.
    """
    levels = {**release.features, **{name: level for name, level in changed.items() if name in release.supported}}
    return {name: level for name, level in levels.items() if level}


def update_error(
    release: Release, features: Mapping[str, int], name: str, level: int, kind: int, controller: int
) -> str | None:
    """Return Kafka's reason why the update of a feature is invalid, or None if the update is valid.

    Args:
        release: The emulated Kafka release.
        features: Feature name -> finalized level.
        name: Name of the feature.
        level: New level.
        kind: Type of the update (Kafka's number: upgrade, safe or unsafe downgrade).
        controller: Broker id of the controller, for the message.
    """
    invalid = f"Invalid update version {level} for feature {shortened(name)}."
    present = features.get(name, 0)
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"{invalid} The controller does not support the given upgrade type."
    if level < 0:
        return f"{invalid} A feature version cannot be less than 0."
    if name not in release.supported:
        return f"{invalid} Local controller {controller} does not support this feature."
    least, most = release.supported[name]
    if not least <= level <= most:
        return f"{invalid} Local controller {controller} only supports versions {least}-{most}"
    if level >= present:
        return None
    if name == KRAFT_VERSION:
        return f"{invalid} Can't downgrade the version of this feature."
    if kind == UPGRADE:
        return (
            f"{invalid} Can't downgrade the version of this feature without setting the upgrade type to either safe "
            "or unsafe downgrade."
        )
    if name == METADATA_VERSION and level < min(LEAST_METADATA_VERSION, present):
        lost = (
            "Refusing to perform the requested downgrade because it might delete metadata information."
            if kind == SAFE_DOWNGRADE
            else "Unsafe metadata downgrade is not supported in this version."
        )
        return f"Unsupported metadata.version downgrade from {present} to {level}. {lost}"
    return None
