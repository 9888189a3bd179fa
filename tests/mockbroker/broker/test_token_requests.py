"""The four requests about delegation tokens: their times on the broker's clock, limits, and expiration.

The conversations tokens_* and acl_delegation_tokens have their errors.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tools.broker_harness import WALL, BrokerHarness
from tools.durable_broker_harness import DurableBrokerHarness

from kwire import ErrorCode as E
from kwire.messages.create_delegation_token import CreateDelegationTokenRequest
from kwire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kwire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.messages.renew_delegation_token import RenewDelegationTokenRequest
from mockbroker.security.delegation_tokens import DelegationTokens, Principal, token_hmac
from mockbroker.security.identity import Identity

WALL_MS = round(WALL * 1000)
DAY = 86_400_000
SECRET = {"delegation.token.secret.key": "secret"}
Renewer = CreateDelegationTokenRequest.Renewer


def harness_of(user: str = "alice", *, may_use_tokens: bool = True, **config: Any) -> BrokerHarness:
    """Return a harness whose requests are all sent by one user."""
    harness = BrokerHarness(config=SECRET | {name.replace("_", "."): value for name, value in config.items()})
    harness.router.identity = lambda _: Identity(f"User:{user}", may_use_tokens)
    return harness


def create(harness: BrokerHarness, *renewers: str, lifetime: int = -1) -> Any:
    listed = [Renewer(principal_type="User", principal_name=name) for name in renewers]
    return harness.ask(CreateDelegationTokenRequest(renewers=listed, max_lifetime_ms=lifetime), 3)


def renew(harness: BrokerHarness, hmac: bytes, period: int = -1) -> Any:
    return harness.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period), 2)


def expire(harness: BrokerHarness, hmac: bytes, period: int = -1) -> Any:
    return harness.ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period), 2)


def described(harness: BrokerHarness) -> list[Any]:
    tokens: list[Any] = harness.ask(DescribeDelegationTokenRequest(owners=None), 3).tokens
    return tokens


LIFETIMES = [  # requested lifetime, time until the token expires, lifetime
    (-1, DAY, 7 * DAY),
    (0, DAY, 7 * DAY),
    (8 * DAY, DAY, 7 * DAY),
    (2 * DAY, DAY, 2 * DAY),
    (1_000, 1_000, 1_000),
]


@pytest.mark.parametrize(("lifetime", "expiry", "longest"), LIFETIMES)
def test_a_token_has_the_lifetime_that_settings_allow(lifetime, expiry, longest):
    harness = harness_of()
    harness.wait(5)
    token = create(harness, lifetime=lifetime)
    times = token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms
    now = WALL_MS + 5_000
    assert times == (now, now + expiry, now + longest)
    assert token.hmac == token_hmac(token.token_id, "secret")


def test_renewal_and_expiry_are_limited_by_the_lifetime():
    harness = harness_of()
    hmac = create(harness, lifetime=2 * DAY).hmac
    harness.wait(DAY / 1000 - 1)
    now = WALL_MS + DAY - 1_000
    assert renew(harness, hmac, 5_000).expiry_timestamp_ms == now + 5_000
    assert renew(harness, hmac, 9 * DAY).expiry_timestamp_ms == now + DAY
    assert expire(harness, hmac, 9 * DAY).expiry_timestamp_ms == WALL_MS + 2 * DAY
    assert expire(harness, hmac, 7).expiry_timestamp_ms == now + 7
    assert [token.expiry_timestamp for token in described(harness)] == [now + 7]


def test_an_expired_token_remains_until_the_next_check():
    harness = harness_of(delegation_token_expiry_time_ms=10_000, delegation_token_expiry_check_interval_ms=60_000)
    hmac = create(harness).hmac
    harness.wait(10)
    assert renew(harness, hmac, 50_000).error_code == E.NONE  # the token expires only after this time
    harness.wait(10.001)
    assert renew(harness, hmac).error_code == E.DELEGATION_TOKEN_EXPIRED
    harness.wait(39.9)
    assert len(described(harness)) == 1
    harness.wait(0.1)
    assert described(harness) == []
    assert renew(harness, hmac).error_code == E.DELEGATION_TOKEN_NOT_FOUND


def test_a_check_leaves_tokens_that_have_not_expired():
    harness = harness_of(delegation_token_expiry_check_interval_ms=60_000)
    create(harness)
    create(harness, lifetime=1_000)
    harness.wait(120)
    assert len(described(harness)) == 1


def test_tokens_expire_after_a_restart():
    intervals = {"delegation.token.expiry.time.ms": 10_000, "delegation.token.expiry.check.interval.ms": 60_000}
    harness = DurableBrokerHarness(config=SECRET | intervals)
    harness.router.identity = lambda _: Identity("User:alice", True)
    create(harness)
    harness.restart()
    assert len(harness.broker.cluster.tokens) == 1
    harness.wait(60.0)
    assert len(harness.broker.cluster.tokens) == 0


def test_a_token_does_not_allow_requests_about_tokens():
    harness = harness_of(may_use_tokens=False)
    assert create(harness).error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert renew(harness, b"").error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert expire(harness, b"").error_code == E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def test_the_number_of_tokens_and_renewers_is_limited():
    harness = harness_of(mockbroker_max_delegation_tokens=5)
    hmac = create(harness, "bob", "carol").hmac
    assert create(harness, "bob", "carol").error_code == E.POLICY_VIOLATION
    assert create(harness, "bob").error_code == E.NONE
    assert create(harness).error_code == E.POLICY_VIOLATION
    renew(harness, hmac)
    expire(harness, hmac)
    assert create(harness, "bob", "carol").error_code == E.NONE


def test_long_names_are_refused():
    assert create(harness_of(), "b" * 1_001).error_code == E.INVALID_REQUEST


def test_an_owner_without_a_type_is_a_server_error() -> None:
    request = CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name="bob")
    for harness in (harness_of(), harness_of(may_use_tokens=False)):
        response = harness.ask(request, 3)
        principals = (response.principal_name, response.token_requester_principal_name)
        assert (response.error_code, principals) == (E.UNKNOWN_SERVER_ERROR, ("ANONYMOUS", "ANONYMOUS"))
        assert described(harness) == []


def test_tokens_are_described_in_slices():
    harness = harness_of()
    harness.broker.slice_size = 2
    for _ in range(5):
        create(harness)
    assert len({token.token_id for token in described(harness)}) == 5


def test_a_token_id_is_no_option_of_a_command_line():
    harness = harness_of()
    ids = iter([UUID("f8" + 30 * "0"), UUID("00" + 30 * "1")])
    harness.broker._new_uuid = lambda: next(ids)
    assert create(harness).token_id.startswith("AB")


def test_a_principal_is_divided_at_the_first_colon():
    assert Principal.parse("User:CN=a:b") == ("User", "CN=a:b")
    assert str(Principal("User", "alice")) == "User:alice"


def test_no_token_has_an_unknown_id_or_hmac():
    tokens = DelegationTokens()
    assert tokens.by_id("x") is tokens.by_hmac(b"x") is None
