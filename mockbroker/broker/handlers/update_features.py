"""The handler of UpdateFeatures v0-2. Source: Kafka's FeatureControlManager.

A new level of share.version, streams.version, group.version or eligible.leader.replicas.version takes effect
immediately. The levels of all other features are reported to clients, but have no effect.
"""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.features import UPGRADE, update_error

Response = UpdateFeaturesResponse
RESULTS_UNTIL = 1  # last version with a result for each feature


def handle(broker: Broker, call: Call[UpdateFeaturesRequest], now: float) -> Effects:  # noqa: ARG001
    request = call.request
    updates = {
        each.feature: (each.max_version_level, each.upgrade_type if call.version else UPGRADE)
        for each in request.feature_updates
    }
    error = update_error(broker.release, broker.features, updates, broker.cluster.controller)
    if error is not None:
        response = Response(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=error)
        return [Reply(call.ticket, response)]
    if not request.validate_only:
        broker.update_features({name: level for name, (level, _) in updates.items()})
    names = [each.feature for each in request.feature_updates] if call.version <= RESULTS_UNTIL else []
    results = [Response.Result(feature=name, error_message=ErrorCode.NONE.name) for name in names]
    return [Reply(call.ticket, Response(error_message=None, results=results))]
