"""Clients in the simulation that change SCRAM credentials, configurations and features, and read them again.

Some of their requests are invalid, or only validated, and must have no effect.
"""

from __future__ import annotations

from typing import Any

from kwire import ErrorCode as E
from kwire.messages.alter_configs import AlterConfigsRequest
from kwire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.describe_configs import DescribeConfigsRequest
from kwire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kwire.messages.update_features import UpdateFeaturesRequest
from mockbroker.lab.simulation.clients.operator import Operator
from mockbroker.lab.simulation.history import NOTHING
from mockbroker.lab.simulation.network import Wire

USERS = ("ann", "bob")
SHA_256, SHA_512 = 1, 2  # numbers of the SCRAM mechanisms
SIZES = {SHA_256: 32, SHA_512: 64}  # mechanism -> bytes of a salted password
ITERATIONS = (4_096, 5_000, 8_192)
TOPIC, TOPIC_CONFIG = 2, 1  # resource type, and config_source of a value that is set for the topic
CONFIGS = ("flush.messages", "flush.ms")  # configurations without an effect on the simulation
VALUES = (10, 20, 30)
FEATURE, DEFAULT_LEVEL, LEVELS = "transaction.version", 2, (0, 1, 2)  # a feature without an effect on the broker
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
ODD = 0.2  # probability of an invalid request


class CredentialOperator(Operator):
    """A client that sets and deletes SCRAM credentials. The register of a credential is its number of iterations."""

    def operate(self, wire: Wire) -> None:
        user, mechanism = self.dice.pick(USERS), self.dice.pick([SHA_256, SHA_512])
        if self.dice.chance(0.4):
            self._describe(wire, user)
        elif self.dice.chance(ODD):
            self._alter_invalid(wire, user)
        elif self.dice.chance(0.3):
            deletion = AlterUserScramCredentialsRequest.Deletion(name=user, mechanism=mechanism)
            self._alter(wire, AlterUserScramCredentialsRequest(deletions=[deletion]), user, mechanism, NOTHING)
        else:
            upsertion = self._upsertion(user, mechanism)
            request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
            self._alter(wire, request, user, mechanism, upsertion.iterations)

    def _upsertion(self, user: str, mechanism: int) -> AlterUserScramCredentialsRequest.Upsertion:
        return AlterUserScramCredentialsRequest.Upsertion(
            name=user,
            mechanism=mechanism,
            iterations=self.dice.pick(ITERATIONS),
            salt=b"salt",
            salted_password=bytes(SIZES.get(mechanism, 1)),
        )

    def _alter(self, wire: Wire, request: object, user: str, mechanism: int, value: int) -> None:
        operation = self.began(_credential(user, mechanism), value)

        def altered(answer: Any) -> None:
            error = answer.results[0].error_code
            possible = [E.NONE, E.RESOURCE_NOT_FOUND] if value == NOTHING else [E.NONE]
            self.expect(f"AlterUserScramCredentials of {user}", error, possible)
            self.ended(operation, error)

        self.request(wire, request, 0, altered)

    def _alter_invalid(self, wire: Wire, user: str) -> None:
        few, unknown = self._upsertion(user, SHA_256), self._upsertion(user, 7)
        few.iterations = self.dice.pick([0, 4_095, 16_385])
        twice = [self._upsertion(user, SHA_256), self._upsertion(user, SHA_512)]
        upsertions, error = self.dice.pick(
            [
                ([few], E.UNACCEPTABLE_CREDENTIAL),
                ([unknown], E.UNSUPPORTED_SASL_MECHANISM),
                (twice, E.DUPLICATE_RESOURCE),
                ([self._upsertion("", SHA_256)], E.UNACCEPTABLE_CREDENTIAL),
            ]
        )
        self.request(
            wire,
            AlterUserScramCredentialsRequest(upsertions=upsertions),
            0,
            lambda answer: self.expect("an invalid credential", answer.results[0].error_code, [error]),
        )

    def _describe(self, wire: Wire, user: str) -> None:
        sent_at, kind = self.queue.now, DescribeUserScramCredentialsRequest.User

        def described(answer: Any) -> None:
            (result,) = answer.results
            self.expect(f"the credentials of {user}", result.error_code, [E.NONE, E.RESOURCE_NOT_FOUND])
            found = {each.mechanism: each.iterations for each in result.credential_infos}
            for mechanism in SIZES:
                self.was_read(_credential(user, mechanism), found.get(mechanism, NOTHING), sent_at)

        self.request(wire, DescribeUserScramCredentialsRequest(users=[kind(name=user)]), 0, described)


def _credential(user: str, mechanism: int) -> str:
    return f"credential {mechanism} of {user}"


class ConfigReplacer(Operator):
    """A client that replaces all configurations of a topic with AlterConfigs. Each configuration is a register."""

    own_topic = "replaced"

    def operate(self, wire: Wire) -> None:
        if self.dice.chance(0.4):
            self._describe(wire)
        elif self.dice.chance(ODD):
            self._alter_without_effect(wire)
        else:
            self._alter(wire)

    def _replacement(self) -> dict[str, int]:
        return {name: self.dice.pick(VALUES) for name in CONFIGS if self.dice.chance(0.6)}

    def _alter(self, wire: Wire) -> None:
        values = self._replacement()
        operations = [self.began(_config(name), values.get(name, NOTHING)) for name in CONFIGS]

        def altered(answer: Any) -> None:
            error = answer.responses[0].error_code
            self.expect("AlterConfigs", error, [E.NONE])
            for operation in operations:
                self.ended(operation, error)

        self.request(wire, _altered({name: str(value) for name, value in values.items()}), 2, altered)

    def _alter_without_effect(self, wire: Wire) -> None:
        values = {name: str(value) for name, value in self._replacement().items()}
        unknown, invalid = {**values, "no.such.config": "1"}, {**values, CONFIGS[0]: "many"}
        given, validates, error = self.dice.pick(
            [(values, True, E.NONE), (unknown, False, E.INVALID_CONFIG), (invalid, False, E.INVALID_CONFIG)]
        )
        request = _altered(given, validate_only=validates)
        self.request(
            wire,
            request,
            self.dice.whole(0, 2),
            lambda answer: self.expect("AlterConfigs without effect", answer.responses[0].error_code, [error]),
        )

    def _describe(self, wire: Wire) -> None:
        sent_at, kind = self.queue.now, DescribeConfigsRequest.Resource

        def described(answer: Any) -> None:
            (result,) = answer.results
            self.expect("DescribeConfigs", result.error_code, [E.NONE])
            found = {each.name: int(each.value) for each in result.configs if each.config_source == TOPIC_CONFIG}
            for name in CONFIGS:
                self.was_read(_config(name), found.get(name, NOTHING), sent_at)

        resource = kind(resource_type=TOPIC, resource_name=self.own_topic, configuration_keys=list(CONFIGS))
        self.request(wire, DescribeConfigsRequest(resources=[resource]), 4, described)


def _config(name: str) -> str:
    return f"{name} of {ConfigReplacer.own_topic}"


def _altered(values: dict[str, str], *, validate_only: bool = False) -> AlterConfigsRequest:
    kind = AlterConfigsRequest.Resource
    configs = [kind.Config(name=name, value=value) for name, value in values.items()]
    resource = kind(resource_type=TOPIC, resource_name=ConfigReplacer.own_topic, configs=configs)
    return AlterConfigsRequest(resources=[resource], validate_only=validate_only)


class FeatureOperator(Operator):
    """A client that changes the level of a feature, and reads it from ApiVersions responses.

    The register of the feature has no value while the feature has its default level.
    """

    def operate(self, wire: Wire) -> None:
        if self.dice.chance(0.5):
            self._read_level(wire)
        elif self.dice.chance(ODD):
            self._update_without_effect(wire)
        else:
            level = self.dice.pick(LEVELS)
            operation = self.began(FEATURE, _level(level))

            def updated(answer: Any) -> None:
                self.expect("UpdateFeatures", answer.error_code, [E.NONE])
                self.ended(operation, answer.error_code)

            kind = self.dice.pick([SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
            self.request(wire, _update(FEATURE, level, kind), 1, updated)

    def _update_without_effect(self, wire: Wire) -> None:
        request, error = self.dice.pick(
            [
                (_update(FEATURE, 0, SAFE_DOWNGRADE, validate_only=True), E.NONE),
                (_update(FEATURE, 9, UPGRADE), E.INVALID_UPDATE_VERSION),
                (_update(FEATURE, -1, UPGRADE), E.INVALID_UPDATE_VERSION),
                (_update(FEATURE, 1, 7), E.INVALID_UPDATE_VERSION),
                (_update("no.such.feature", 1, UPGRADE), E.INVALID_UPDATE_VERSION),
            ]
        )
        self.request(
            wire,
            request,
            1,
            lambda answer: self.expect("UpdateFeatures without effect", answer.error_code, [error]),
        )

    def _read_level(self, wire: Wire) -> None:
        sent_at, version = self.queue.now, self.dice.whole(0, 4)
        name = self.dice.pick(["sim", "sim", ""])

        def read(answer: Any) -> None:
            is_valid = version < 3 or bool(name)
            self.expect(f"ApiVersions v{version}", answer.error_code, [E.NONE if is_valid else E.INVALID_REQUEST])
            if is_valid and version >= 3:
                levels = {each.name: each.max_version_level for each in answer.finalized_features}
                self.was_read(FEATURE, _level(levels.get(FEATURE, 0)), sent_at)

        self.request(wire, ApiVersionsRequest(client_software_name=name, client_software_version="1"), version, read)


def _level(level: int) -> int:
    return NOTHING if level == DEFAULT_LEVEL else level


def _update(name: str, level: int, kind: int, *, validate_only: bool = False) -> UpdateFeaturesRequest:
    update = UpdateFeaturesRequest.FeatureUpdate(feature=name, max_version_level=level, upgrade_type=kind)
    return UpdateFeaturesRequest(feature_updates=[update], validate_only=validate_only, timeout_ms=1_000)
