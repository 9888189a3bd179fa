"""The handler of AlterUserScramCredentials v0. A change applies only to authentications after the change."""

from __future__ import annotations

from kwire import ErrorCode
from kwire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.security.users import SCRAM_NUMBERS, ScramCredential, Users

Result = AlterUserScramCredentialsResponse.Result
Deletion = AlterUserScramCredentialsRequest.Deletion
Upsertion = AlterUserScramCredentialsRequest.Upsertion
MECHANISMS = {number: mechanism for mechanism, number in SCRAM_NUMBERS.items()}
MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 16_384  # Source: Kafka's ScramMechanism and ScramControlManager
DUPLICATE = ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
CredentialError = tuple[ErrorCode, str]


def handle(broker: Broker, call: Call[AlterUserScramCredentialsRequest], now: float) -> Effects:  # noqa: ARG001
    """Delete or set one SCRAM credential of each user in the request.

    A user that occurs twice gets an error: that of its first invalid alteration, or DUPLICATE_RESOURCE. The response
    lists the users with an error first.

    Args:
        broker: The state of the cluster.
        call: The request, its client, and its ticket (the object that identifies the request).
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    alterations: list[Deletion | Upsertion] = [*call.request.deletions, *call.request.upsertions]
    errors: dict[str, CredentialError] = {}
    valid: dict[str, Deletion | Upsertion] = {}
    for alteration in alterations:
        name = alteration.name
        if name in errors:  # the first error of a user counts
            continue
        if error := DUPLICATE if valid.pop(name, None) else _error(broker.users, alteration):
            errors[name] = error
        else:
            valid[name] = alteration
    for alteration in valid.values():
        _alter(broker, alteration)
    results = [Result(user=name, error_code=code, error_message=text) for name, (code, text) in errors.items()]
    results += [Result(user=name, error_message=None) for name in valid]
    return [Reply(call.ticket, AlterUserScramCredentialsResponse(results=results))]


def _error(users: Users, alteration: Deletion | Upsertion) -> CredentialError | None:
    if not alteration.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if alteration.mechanism not in MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(alteration, Deletion):
        if (alteration.name, MECHANISMS[alteration.mechanism]) not in users.scram:
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        return None
    if not MIN_ITERATIONS <= alteration.iterations <= MAX_ITERATIONS:
        return (
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"Too {'few' if alteration.iterations < MIN_ITERATIONS else 'many'} iterations",
        )
    return None


def _alter(broker: Broker, alteration: Deletion | Upsertion) -> None:
    mechanism = MECHANISMS[alteration.mechanism]
    credential = None
    if not isinstance(alteration, Deletion):
        credential = ScramCredential.from_salted_password(
            mechanism, alteration.salted_password, alteration.salt, alteration.iterations
        )
    altered = {(alteration.name, mechanism): credential}
    broker.users.alter(altered)
    broker.cluster.scram |= altered
    broker.cluster.changed()
