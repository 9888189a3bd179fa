"""AlterConfigs: v0-2, of topics: what is not named goes back to its default. Not modelled: brokers, groups."""

from __future__ import annotations

from kwire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.topics import alteration
from mockbroker.topics.alteration import SET, Change


def handle(broker: Broker, call: Call[AlterConfigsRequest], now: float) -> Effects:  # noqa: ARG001
    wanted = [
        (
            (asked.resource_type, asked.resource_name),
            [Change(config.name, SET, config.value) for config in asked.configs],
        )
        for asked in call.request.resources
    ]
    refusals = alteration.alter_all(
        broker.cluster, broker.release, wanted, replace_all=True, validate_only=call.request.validate_only
    )
    responses = [
        AlterConfigsResponse.Resource(
            error_code=refusal.error, error_message=refusal.text, resource_type=resource_type, resource_name=name
        )
        for ((resource_type, name), _), refusal in zip(wanted, refusals, strict=True)
    ]
    return [Reply(call.ticket, AlterConfigsResponse(responses=responses))]


HANDLER = Handler(Versions.parse("0-2"), handle)
