"""DescribeUserScramCredentials: v0."""

from __future__ import annotations

from collections import Counter

from kwire import ErrorCode
from kwire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.broker.sasl.users import SCRAM_NUMBERS, Users
from mockbroker.broker.slices import chunks, copy_with, in_slices

Result = DescribeUserScramCredentialsResponse.Result


def handle(broker: Broker, call: Call[DescribeUserScramCredentialsRequest], now: float) -> Effects:  # noqa: ARG001
    users = broker.users
    asked = Counter(user.name for user in call.request.users or ())
    results = [_describe(users, name, asked[name]) for name in asked or users.with_scram_credentials()]
    return [Reply(call.ticket, DescribeUserScramCredentialsResponse(error_message="", results=results))]


def _describe(users: Users, name: str, times: int) -> Result:
    """``times``: how often it was asked for."""
    if times > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return Result(user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=text)
    found = users.scram_credentials(name)
    if not found:
        text = f"Attempt to describe a user credential that does not exist: {name}"
        return Result(user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=text)
    infos = [
        Result.Credential(mechanism=SCRAM_NUMBERS[mechanism], iterations=credential.iterations)
        for mechanism, credential in found.items()
    ]
    return Result(user=name, error_message="", credential_infos=infos)


def _split(broker: Broker, request: DescribeUserScramCredentialsRequest) -> list[DescribeUserScramCredentialsRequest]:
    """By users; not where one is named twice."""
    users, size = request.users or [], broker.slice_size
    if len(users) <= size or len({user.name for user in users}) < len(users):
        return []
    return [copy_with(request, users=part) for part in chunks(users, size)]


def _merge(response: DescribeUserScramCredentialsResponse, more: DescribeUserScramCredentialsResponse) -> None:
    response.results += more.results


HANDLER = Handler(Versions.parse("0"), in_slices(handle, _split, _merge))
