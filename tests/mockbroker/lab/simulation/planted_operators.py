"""Planted bugs of administrative requests, which the operators of ``mix``, ``admin`` and ``bytes`` must notice."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import pytest

from kwire import ErrorCode
from kwire.messages.api_versions import ApiVersionsResponse
from mockbroker.broker import failover
from mockbroker.broker.broker import Broker
from mockbroker.broker.handlers import alter_configs, alter_user_scram_credentials, api_versions, write_txn_markers
from mockbroker.broker.sasl.mechanism import Authenticated
from mockbroker.broker.sasl.scram import Scram256Or512
from mockbroker.groups.share import offsets
from mockbroker.security.delegation_tokens import DelegationToken, DelegationTokens
from mockbroker.security.users import Users
from mockbroker.share.states import ANY_EPOCH, ShareStates
from mockbroker.storage import catalogue
from mockbroker.telemetry.client_metrics import ClientInstance
from mockbroker.topics.alteration import Alteration
from mockbroker.topics.log_dirs import LogDirs
from mockbroker.topics.model import Partition
from mockbroker.topics.producers import Producers

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]
OPERATOR_BUGS: list[tuple[tuple[str, ...], Plant, str]] = []


def bug(*by: str, scheme: str = "mix") -> Callable[[Plant], Plant]:
    def listed(plant: Plant) -> Plant:
        OPERATOR_BUGS.append((by, plant, scheme))
        return plant

    return listed


@bug("I47", scheme="bytes")
def an_expired_token_is_renewed(patch: Patch) -> None:
    patch.setattr(DelegationToken, "is_expired", lambda self, now_ms: False)


@bug("I13", scheme="bytes")
def expired_tokens_stay(patch: Patch) -> None:
    patch.setattr(DelegationTokens, "remove_expired", lambda self, now_ms: False)


@bug("I47")
def a_marker_of_an_old_coordinator_is_written(patch: Patch) -> None:
    real = Producers.marker_error
    patch.setattr(
        Producers, "marker_error", lambda self, number, epoch, _, version=0: real(self, number, epoch, 1 << 30, version)
    )


@bug("I47")
def offsets_of_a_share_group_with_members_are_altered(patch: Patch) -> None:
    patch.setattr(offsets, "_check_empty", lambda group: None)


@bug("I47")
def the_state_of_an_old_share_leader_is_written(patch: Patch) -> None:
    real = ShareStates.write
    patch.setattr(
        ShareStates,
        "write",
        lambda self, key, change, now: real(self, key, replace(change, leader_epoch=ANY_EPOCH), now),
    )


@bug("I47")
def metrics_are_never_too_early(patch: Patch) -> None:
    patch.setattr(ClientInstance, "accepts_push", lambda self, now: True)


@bug("I47", scheme="admin")
def an_election_changes_no_leader(patch: Patch) -> None:
    real = failover.elect

    def elect(broker: Broker, partition: Partition, now: float, *, unclean: bool) -> Any:
        leader = partition.leader
        error, effects = real(broker, partition, now, unclean=unclean)
        if not error:
            partition.leader = leader
        return error, effects

    patch.setattr(failover, "elect", elect)


@bug("I38")
def altered_configurations_keep_the_others(patch: Patch) -> None:
    def alteration(**how: Any) -> Alteration:
        return Alteration(**how | {"replace_all": False})

    patch.setattr(alter_configs, "Alteration", alteration)


@bug("I38")
def a_credential_is_not_stored(patch: Patch) -> None:
    def alter(broker: Broker, alteration: Any) -> None:
        stored = dict(broker.cluster.scram)
        real(broker, alteration)
        broker.cluster.scram.clear()
        broker.cluster.scram |= stored

    real = alter_user_scram_credentials._alter
    patch.setattr(alter_user_scram_credentials, "_alter", alter)


@bug("I38")
def a_feature_level_is_not_stored(patch: Patch) -> None:
    real = Broker.update_features

    def update(self: Broker, levels: Any) -> None:
        stored = dict(self.cluster.changed_features)
        real(self, levels)
        self.cluster.changed_features.clear()
        self.cluster.changed_features |= stored

    patch.setattr(Broker, "update_features", update)


@bug("I38")
def a_moved_replica_returns(patch: Patch) -> None:
    patch.setattr(LogDirs, "complete_move", lambda self, replica: self.future.pop(replica, None))


@bug("I38")
def altered_share_offsets_are_at_least_ten(patch: Patch) -> None:
    real = offsets._initialize

    def initialize(group: Any, topic: Any, index: int, offset: int, context: Any, now: float) -> ErrorCode:
        return real(group, topic, index, max(offset, 10), context, now)

    patch.setattr(offsets, "_initialize", initialize)


@bug("I40", scheme="bytes")
def the_first_response_has_no_versions(patch: Patch) -> None:
    patch.setattr(api_versions, "_response", lambda broker, *, optional: ApiVersionsResponse())


@bug("I48", scheme="bytes")
def an_old_password_stays_valid(patch: Patch) -> None:
    first: dict[tuple[Users, str, str], Any] = {}
    real = Scram256Or512._credential

    def credential(self: Scram256Or512, user: str) -> Any:
        found = real(self, user)
        if found is None:
            return None
        return first.setdefault((self._users, self._mechanism, user), found)

    patch.setattr(Scram256Or512, "_credential", credential)


@bug("I48", scheme="bytes")
def a_deleted_password_stays_valid(patch: Patch) -> None:
    last: dict[tuple[Users, str, str], Any] = {}
    real = Scram256Or512._credential

    def credential(self: Scram256Or512, user: str) -> Any:
        key = self._users, self._mechanism, user
        found = last[key] = real(self, user) or last.get(key)
        return found

    patch.setattr(Scram256Or512, "_credential", credential)


@bug("I48", scheme="bytes")
def an_expired_token_logs_in(patch: Patch) -> None:
    real = Scram256Or512._final

    def final(self: Scram256Or512, text: str) -> Any:
        verdict = real(self, text)
        return replace(verdict, expires_at_ms=None) if isinstance(verdict, Authenticated) else verdict

    patch.setattr(Scram256Or512, "_final", final)
    patch.setattr(DelegationTokens, "remove_expired", lambda self, now_ms: False)


@bug("I48", scheme="bytes")
def a_removed_token_logs_in(patch: Patch) -> None:
    removed: dict[tuple[DelegationTokens, str], DelegationToken] = {}
    remove, by_id = DelegationTokens.remove, DelegationTokens.by_id

    def remember(self: DelegationTokens, token: DelegationToken) -> None:
        removed[self, token.token_id] = token
        remove(self, token)

    patch.setattr(DelegationTokens, "remove", remember)
    patch.setattr(DelegationTokens, "by_id", lambda self, id_: by_id(self, id_) or removed.get((self, id_)))


@bug("I38")
def a_moved_replica_returns_after_a_restart(patch: Patch) -> None:
    patch.setattr(catalogue, "_replicas_json", lambda paths: [])


@bug("I47")
def a_marker_with_the_epoch_of_the_transaction_is_written(patch: Patch) -> None:
    real = Producers.marker_error
    patch.setattr(
        Producers, "marker_error", lambda self, number, epoch, of, version=0: real(self, number, epoch, of, 0)
    )


@bug("I47")
def a_hanging_transaction_is_always_aborted(patch: Patch) -> None:
    real = write_txn_markers._write

    def write(broker: Broker, node: int, marker: Any, *args: Any) -> ErrorCode:
        aborting = copy(marker)
        aborting.transaction_result = False
        return real(broker, node, aborting, *args)

    patch.setattr(write_txn_markers, "_write", write)
