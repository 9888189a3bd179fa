"""Torture in a test: the fixture ``kafka_torture`` of the pytest plugin."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from mockbroker.lab.torture.case import Case
from mockbroker.lab.torture.process import Usage
from mockbroker.lab.torture.runner import Client, Health, Limits, Result, Verdict, applies, examine, run
from mockbroker.lab.torture.security import Security

CLIENTS = 16  # maximum number of clients whose run against a healthy broker is cached


@lru_cache(CLIENTS)
def _health(command: tuple[str, ...], topic: str, limits: Limits, security: Security) -> Health:
    return examine(Client(command, topic, security=security), limits)


class Torture:
    """A case of the catalogue, which a test can run.

    Attributes:
        case: the case.
        seed: seed of the random numbers of the case.
    """

    def __init__(self, case: Case, seed: int) -> None:
        self.case = case
        self.seed = seed

    def run(
        self,
        command: Sequence[str],
        *,
        topic: str = "torture",
        limits: Limits | None = None,
        security: Security | None = None,
    ) -> Result:
        """Run a client against the case, and return the result.

        Its attribute ``survived`` is False if the client failed.

        First, the client is run against a correct broker, for comparison. Later calls with the same client and settings
        do not repeat this run. If the case cannot affect the client, the verdict is SKIPPED.

        Args:
            command: program and arguments. The program gets the address of the broker in the environment variable
                MOCKBROKER_BOOTSTRAP_SERVERS, the topic in MOCKBROKER_TOPIC and a group id in MOCKBROKER_GROUP. It must
                run until it is stopped.
            topic: topic to which records are appended continuously.
            limits: thresholds of the verdicts; None for the defaults.
            security: security settings of the broker's listener; None for plaintext. The client gets them in
                environment variables: MOCKBROKER_SECURITY_PROTOCOL, MOCKBROKER_TLS_CA, MOCKBROKER_SASL_MECHANISM,
                MOCKBROKER_SASL_USERNAME, MOCKBROKER_SASL_PASSWORD and, for OAUTHBEARER, MOCKBROKER_SASL_TOKEN.

        Raises:
            UnhealthyClientError: The client failed or made no progress with a correct broker.
        """
        limits = Limits() if limits is None else limits
        client = Client(tuple(command), topic, security=Security() if security is None else security)
        health = _health(tuple(command), topic, limits, client.security)
        if applies(self.case, health):
            return run(self.case, client, health, limits, self.seed)
        return Result(
            case=self.case,
            verdict=Verdict.SKIPPED,
            seed=self.seed,
            seconds=0.0,
            recovered=None,
            applied=0,
            usage=Usage(),
            exit_code=None,
            output="",
            response="",
            reproduce="",
        )
