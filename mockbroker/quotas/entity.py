"""The entities that have quotas: a user, a client id, a user with a client id, or an address.

Each component of an entity is a name, or the default, which applies to all names without their own quotas.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from kwire.lazy_dataclass import dataclass

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES = (CLIENT_ID, USER, IP)  # in the order of Kafka's responses


@dataclass(frozen=True, slots=True)
class Default:
    """The name of a default entity. Its quotas apply to all names that have no quotas."""


DEFAULT = Default()
Name: TypeAlias = str | Default | None  # None: the entity has no name of this type


class Entity(NamedTuple):
    """An entity that has quotas. Components that the entity does not have are None.

    It is a tuple because each request looks up the quotas of its client, and the hash of a tuple is fast.

    Attributes:
        user: name of the user, without ``User:``; DEFAULT for the default user.
        client_id: the ``client.id``; DEFAULT for the default client id.
        ip: address of the client; DEFAULT for the default address. An entity with an address has neither user nor
            client id.
    """

    user: Name = None
    client_id: Name = None
    ip: Name = None

    def names(self) -> Iterator[tuple[str, str | Default]]:
        """Yield the type and the name of each component of the entity."""
        for entity_type, name in zip(TYPES, (self.client_id, self.user, self.ip), strict=True):
            if name is not None:
                yield entity_type, name


def of_names(names: dict[str, str | Default]) -> Entity:
    """Return an entity. ``names``: name by entity type (USER, CLIENT_ID, IP)."""
    return Entity(names.get(USER), names.get(CLIENT_ID), names.get(IP))


# The entities whose quota applies to a user and a client id, the most specific first; True: this name, False: the
# default, None: no name of this type. Source: Kafka's ClientQuotaManager.DefaultQuotaCallback.
PRECEDENCE: tuple[tuple[bool | None, bool | None], ...] = (
    (True, True),
    (True, False),
    (True, None),
    (False, True),
    (False, False),
    (False, None),
    (None, True),
    (None, False),
)


def candidates(user: str, client_id: str) -> Iterator[tuple[Entity, Entity]]:
    """Yield the entities whose quotas may apply to a client, the most specific first.

    Args:
        user: name of the user, without ``User:``.
        client_id: the ``client.id``.

    Yields:
        The entity that has the quota, and the entity whose clients share the quota. They differ for a default entity,
        whose quota applies to each user or client id separately.
    """
    for with_user, with_client in PRECEDENCE:
        quota_user = _name(user, with_user)
        quota_client = _name(client_id, with_client)
        shared = Entity(None if with_user is None else user, None if with_client is None else client_id)
        yield Entity(quota_user, quota_client), shared


def _name(name: str, exact: bool | None) -> Name:
    if exact is None:
        return None
    return name if exact else DEFAULT
