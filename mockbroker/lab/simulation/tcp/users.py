"""The user of all simulated clients."""

from __future__ import annotations

from functools import cache

from mockbroker.broker.sasl.scram import derive
from mockbroker.lab.simulation.tcp.client_end import MECHANISMS, PASSWORD, USER
from mockbroker.security.users import ScramCredentials, Users


def simulated_users() -> Users:
    """Return the only user of a simulated cluster (USER), with the password and SCRAM credentials."""
    return Users({USER: PASSWORD}, _credentials())


@cache
def _credentials() -> ScramCredentials:
    return derive({USER: PASSWORD}, MECHANISMS, lambda: b"as long as a salt")
