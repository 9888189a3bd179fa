"""The handler of UpdateFeatures v0-2. Source: Kafka's FeatureControlManager.

A new level of share.version, streams.version, group.version or eligible.leader.replicas.version takes effect
immediately. The levels of all other features are reported to clients, but have no effect.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from kwire import ErrorCode
from kwire.java import map_order
from kwire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.features import UPGRADE, update_error
from mockbroker.broker.slices import chunks

Response = UpdateFeaturesResponse
RESULTS_UNTIL = 1  # last version with a result for each feature


def handle(broker: Broker, call: Call[UpdateFeaturesRequest], now: float) -> Effects:  # noqa: ARG001
    return begin(call.ticket, _update(broker, call))


def _update(broker: Broker, call: Call[UpdateFeaturesRequest]) -> Steps:
    request = call.request
    updates = {
        each.feature: (each.max_version_level, each.upgrade_type if call.version else UPGRADE)
        for each in request.feature_updates
    }
    reason = yield from _first_error(broker, updates)
    if reason is not None:
        text = f"The update failed for all features since the following feature had an error: {reason}"
        return [Reply(call.ticket, Response(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=text))]
    if not request.validate_only:
        broker.update_features({name: level for name, (level, _) in updates.items()})
    names = [each.feature for each in request.feature_updates] if call.version <= RESULTS_UNTIL else []
    results = [Response.Result(feature=name, error_message=ErrorCode.NONE.name) for name in names]
    return [Reply(call.ticket, Response(error_message=None, results=results))]


def _first_error(broker: Broker, updates: Mapping[str, tuple[int, int]]) -> Generator[Effects, float, str | None]:
    """Return Kafka's reason why an update is invalid; of several, the first in the order of its HashMap.

    Args:
        broker: The state of the cluster.
        updates: Feature name -> new level and type of the update.
    """
    reasons: dict[str, str] = {}
    for number, part in enumerate(chunks(list(updates), broker.slice_size)):
        if number:
            yield []
        for name in part:
            reason = update_error(broker.release, broker.features, name, *updates[name], broker.cluster.controller)
            if reason is not None:
                reasons[name] = reason
        reasons = {name: reasons[name] for name in map_order(reasons, most=len(updates))[:1]}
    return next(iter(reasons.values()), None)
