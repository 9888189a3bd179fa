"""AlterUserScramCredentials: v0. What is changed holds for the next one who comes in, and until the cluster ends."""

from __future__ import annotations

from collections import Counter

from kwire import ErrorCode
from kwire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kwire.schema import Versions
from mockbroker.base.effects import Call, Effects, Reply
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers.handler import Handler
from mockbroker.broker.sasl.users import SCRAM_NUMBERS, ScramCredential, Users

Result = AlterUserScramCredentialsResponse.Result
Deletion = AlterUserScramCredentialsRequest.Deletion
Upsertion = AlterUserScramCredentialsRequest.Upsertion
MECHANISMS = {number: mechanism for mechanism, number in SCRAM_NUMBERS.items()}
LEAST, MOST = 4_096, 16_384  # iterations. Source: Kafka's ScramMechanism and ScramControlManager
TWICE = ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
Problem = tuple[ErrorCode, str]


def handle(broker: Broker, call: Call[AlterUserScramCredentialsRequest], now: float) -> Effects:  # noqa: ARG001
    """Users are answered one by one, those with a problem first; a user may be named once, whatever the mechanism."""
    asked: list[Deletion | Upsertion] = [*call.request.deletions, *call.request.upsertions]
    times = Counter(one.name for one in asked)
    problems: dict[str, Problem] = {}
    done: list[str] = []
    for one in asked:
        if problem := TWICE if times[one.name] > 1 else _problem(broker.users, one):
            problems[one.name] = problem
        else:
            _alter(broker.users, one)
            done.append(one.name)
    results = [Result(user=name, error_code=code, error_message=text) for name, (code, text) in problems.items()]
    results += [Result(user=name, error_message=None) for name in done]
    return [Reply(call.ticket, AlterUserScramCredentialsResponse(results=results))]


def _problem(users: Users, asked: Deletion | Upsertion) -> Problem | None:
    if not asked.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if asked.mechanism not in MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(asked, Deletion):
        if (asked.name, MECHANISMS[asked.mechanism]) not in users.scram:
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        return None
    if not LEAST <= asked.iterations <= MOST:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too {'few' if asked.iterations < LEAST else 'many'} iterations"
    return None


def _alter(users: Users, asked: Deletion | Upsertion) -> None:
    mechanism = MECHANISMS[asked.mechanism]
    if isinstance(asked, Deletion):
        del users.scram[asked.name, mechanism]
    else:
        users.scram[asked.name, mechanism] = ScramCredential.from_salted_password(
            mechanism, asked.salted_password, asked.salt, asked.iterations
        )


HANDLER = Handler(Versions.parse("0"), handle)
