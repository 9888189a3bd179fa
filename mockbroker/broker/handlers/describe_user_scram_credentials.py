"""The handler of DescribeUserScramCredentials v0, for the requested users or for all users with SCRAM credentials."""

from __future__ import annotations

from collections import Counter

from kwire import ErrorCode
from kwire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import chunks, copy_with, in_slices, merge_array
from mockbroker.security.users import SCRAM_NUMBERS, Users

Result = DescribeUserScramCredentialsResponse.Result


def _handle(broker: Broker, call: Call[DescribeUserScramCredentialsRequest], now: float) -> Effects:  # noqa: ARG001
    users = broker.users
    counts = Counter(user.name for user in call.request.users or ())
    results = [_describe(users, name, counts[name]) for name in counts or users.with_scram_credentials()]
    return [Reply(call.ticket, DescribeUserScramCredentialsResponse(error_message="", results=results))]


def _describe(users: Users, name: str, count: int) -> Result:
    """Return the result for a user: the SCRAM credentials, or an error.

    Args:
        users: All users.
        name: Name of the user.
        count: Number of times that the user occurs in the request; the result is an error if it is greater than 1.
    """
    if count > 1:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return Result(user=name, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=text)
    credentials = users.scram_credentials(name)
    if not credentials:
        text = f"Attempt to describe a user credential that does not exist: {name}"
        return Result(user=name, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=text)
    infos = [
        Result.Credential(mechanism=SCRAM_NUMBERS[mechanism], iterations=credential.iterations)
        for mechanism, credential in credentials.items()
    ]
    return Result(user=name, error_message="", credential_infos=infos)


def _split(broker: Broker, request: DescribeUserScramCredentialsRequest) -> list[DescribeUserScramCredentialsRequest]:
    """Return the parts of a large request, with ``Broker.slice_size`` users each.

    The result is [] if the request is small or has duplicates, and therefore is not split.
    """
    users, size = request.users or [], broker.slice_size
    if len(users) <= size or len({user.name for user in users}) < len(users):
        return []
    return [copy_with(request, users=part) for part in chunks(users, size)]


handle = in_slices(_handle, _split, merge_array("results"))
