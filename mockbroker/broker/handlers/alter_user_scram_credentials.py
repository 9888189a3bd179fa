"""The handler of AlterUserScramCredentials v0. A change applies only to authentications after the change."""

from __future__ import annotations

from collections.abc import Sequence

from kwire import ErrorCode
from kwire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from mockbroker.base.effects import Call, Effects, Reply, Steps, begin
from mockbroker.broker.broker import Broker
from mockbroker.broker.slices import chunks
from mockbroker.security.users import SCRAM_NUMBERS, ScramCredential, Users

Result = AlterUserScramCredentialsResponse.Result
Deletion = AlterUserScramCredentialsRequest.Deletion
Upsertion = AlterUserScramCredentialsRequest.Upsertion
MECHANISMS = {number: mechanism for mechanism, number in SCRAM_NUMBERS.items()}
MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 16_384  # Source: Kafka's ScramMechanism and ScramControlManager
DUPLICATE = ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
Alteration = Deletion | Upsertion
CredentialError = tuple[ErrorCode, str | None]


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
    return begin(call.ticket, _alter_in_slices(broker, call))


def _alter_in_slices(broker: Broker, call: Call[AlterUserScramCredentialsRequest]) -> Steps:
    """Check all alterations, then make those that are valid, in slices."""
    errors, valid = _checked(broker.users, [*call.request.deletions, *call.request.upsertions])
    for number, part in enumerate(chunks(list(valid.values()), broker.slice_size)):
        if number:
            yield []
        _alter(broker, part)
    results = [Result(user=name, error_code=code, error_message=text) for name, (code, text) in errors.items()]
    results += [Result(user=name, error_message=None) for name in valid]
    return [Reply(call.ticket, AlterUserScramCredentialsResponse(results=results))]


def _checked(
    users: Users, alterations: Sequence[Alteration]
) -> tuple[dict[str, CredentialError], dict[str, Alteration]]:
    """Return the users with an error, and the valid alterations by user."""
    errors: dict[str, CredentialError] = {}
    valid: dict[str, Alteration] = {}
    for alteration in alterations:
        name = alteration.name
        if name in errors:  # the first error of a user counts
            continue
        if error := DUPLICATE if valid.pop(name, None) else _error(users, alteration):
            errors[name] = error
        else:
            valid[name] = alteration
    for name in [name for name, each in valid.items() if isinstance(each, Upsertion) and not each.salted_password]:
        del valid[name]
        errors[name] = ErrorCode.UNKNOWN_SERVER_ERROR, None  # as in Kafka, whose HMAC rejects an empty key
    return errors, valid


def _error(users: Users, alteration: Alteration) -> CredentialError | None:
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


def _alter(broker: Broker, alterations: Sequence[Alteration]) -> None:
    altered = {(each.name, MECHANISMS[each.mechanism]): _credential(each) for each in alterations}
    broker.users.alter(altered)
    broker.cluster.scram |= altered
    broker.cluster.changed()


def _credential(alteration: Alteration) -> ScramCredential | None:
    """Return the new credential of a user; None if it is to be deleted."""
    if isinstance(alteration, Deletion):
        return None
    return ScramCredential.from_salted_password(
        MECHANISMS[alteration.mechanism], alteration.salted_password, alteration.salt, alteration.iterations
    )
