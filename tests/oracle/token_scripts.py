"""Conversations about delegation tokens, which record.py records; each function is one conversation.

Each conversation expires its tokens at its end. A login with a token cannot be recorded, because SCRAM uses a nonce.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from authorizer_scripts import ALLOW, DENY, DESCRIBE, LITERAL, NAMES, PREFIXED, SETTINGS, grant, log_in, revoke
from authorizer_scripts import USERS as ACL_USERS
from prober import Prober
from sasl_scripts import give, shake
from script import NEW, script

from kwire.messages.create_delegation_token import CreateDelegationTokenRequest
from kwire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kwire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.messages.renew_delegation_token import RenewDelegationTokenRequest

USERS = {"alice": "alice-secret", "bob": "bob-secret", "carol": "carol-secret"}
SECRET = {"delegation.token.secret.key": "a secret of the cluster"}
DAY = 86_400_000
NO_HMAC = b"not a token"
DELEGATION_TOKEN, USER = 6, 7  # resource types
CREATE_TOKENS, DESCRIBE_TOKENS = 13, 14  # operations
Renewer = CreateDelegationTokenRequest.Renewer
Owner = DescribeDelegationTokenRequest.Owner


def creation(*renewers: str, owner: str | None = None, lifetime: int = -1) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(
        owner_principal_type="" if owner is None else "User",
        owner_principal_name="" if owner is None else owner,
        renewers=[Renewer(principal_type="User", principal_name=name) for name in renewers],
        max_lifetime_ms=lifetime,
    )


def owned(*names: str) -> DescribeDelegationTokenRequest:
    return DescribeDelegationTokenRequest(owners=[Owner(principal_type="User", principal_name=name) for name in names])


async def create(p: Prober, conn: str, *renewers: str, version: int = 3, **more: Any) -> bytes:
    """Create a token, and wait until the broker has it; return its HMAC."""
    created = await p.ask(conn, creation(*renewers, **more), version)
    await p.wait(300, "until the broker has the token")
    hmac: bytes = created.hmac
    return hmac


async def renew(p: Prober, conn: str, hmac: bytes, period: int = -1, version: int = 2) -> None:
    await p.ask(conn, RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period), version)


async def expire(p: Prober, conn: str, hmac: bytes, period: int = -1, version: int = 2) -> None:
    await p.ask(conn, ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period), version)


async def describe(p: Prober, conns: Sequence[str], request: DescribeDelegationTokenRequest, version: int = 3) -> None:
    await p.wait(300, "until the broker has heard of it")
    for conn in conns:
        await p.ask(conn, request, version)


async def log_in_all(p: Prober) -> None:
    for user in USERS:
        await shake(p, user)
        await give(p, user, f"\0{user}\0{USERS[user]}".encode())


async def all_four(p: Prober, conn: str) -> None:
    """Send each request in each version."""
    for version in (1, 2, 3):
        owner = "carol" if version == 3 else None
        await p.ask(conn, creation("bob", owner=owner), version)
        await p.ask(conn, DescribeDelegationTokenRequest(owners=None), version)
    for version in (1, 2):
        await renew(p, conn, NO_HMAC, version=version)
        await expire(p, conn, NO_HMAC, version=version)


@script(releases=(NEW,), users=USERS)
async def tokens_disabled(p: Prober) -> None:
    """Delegation tokens are disabled without delegation.token.secret.key."""
    await log_in_all(p)
    await all_four(p, "alice")
    wrong = creation()
    wrong.renewers = [Renewer(principal_type="Group", principal_name="bob")]
    await p.ask("alice", wrong, 3)
    await describe(p, ["alice"], owned())


@script(SECRET, (NEW,), USERS, ("plain",))
async def tokens_not_allowed(p: Prober) -> None:
    """A client without authentication may not send requests about delegation tokens."""
    await all_four(p, "plain")


@script(SECRET, (NEW,), USERS)
async def tokens_created(p: Prober) -> None:
    """CreateDelegationToken: owners, requesters, renewers and lifetimes, and the tokens that DescribeDelegationToken
    returns."""
    await log_in_all(p)
    everybody = list(USERS)
    tokens = [
        await create(p, "alice"),
        await create(p, "alice", "bob", version=2, lifetime=3_600_000),
        await create(p, "bob", "alice", "carol", version=1, lifetime=0),
        await create(p, "bob", owner="carol", lifetime=30 * DAY),
        await create(p, "bob", version=2, lifetime=2 * DAY),
    ]
    await describe(p, everybody, DescribeDelegationTokenRequest(owners=None))
    await describe(p, everybody, owned())
    await describe(p, everybody, owned("alice"))
    await describe(p, everybody, owned("carol", "nobody"), 2)
    await describe(p, everybody, owned("bob", "bob"), 1)
    await describe(p, ["alice"], owned("nobody"), 1)
    wrong = creation()
    wrong.renewers = [Renewer(principal_type="User", principal_name="bob")]
    wrong.renewers.append(Renewer(principal_type="Group", principal_name="bob"))
    await p.ask("alice", wrong, 3)
    await p.ask("alice", wrong, 2)
    nobody = creation()
    nobody.owner_principal_type = nobody.owner_principal_name = None
    tokens.append((await p.ask("alice", nobody, 3)).hmac)
    tokens.append(await create(p, "alice", "bob", "bob", "alice"))
    await describe(p, ["bob"], DescribeDelegationTokenRequest(owners=None), 3)
    await describe(
        p, ["bob"], DescribeDelegationTokenRequest(owners=[Owner(principal_type="Group", principal_name="alice")])
    )
    for number, hmac in enumerate(tokens):
        owner = ("alice", "alice", "bob", "carol", "bob", "alice", "alice")[number]
        await expire(p, owner, hmac)
    await describe(p, ["alice"], DescribeDelegationTokenRequest(owners=None))


@script(SECRET, (NEW,), USERS)
async def tokens_renewed(p: Prober) -> None:
    """RenewDelegationToken and ExpireDelegationToken by owners, renewers and requesters, and their responses."""
    await log_in_all(p)
    token = await create(p, "alice", "bob", lifetime=3 * DAY)
    await renew(p, "alice", NO_HMAC)
    await renew(p, "alice", b"")
    await expire(p, "alice", NO_HMAC)
    for conn in ("carol", "bob", "alice"):
        await renew(p, conn, token, DAY // 2)
    await describe(p, ["alice"], owned("alice"))
    for version, period in ((2, 30 * DAY), (1, 0), (2, -2)):
        await renew(p, "alice", token, period, version)
        await describe(p, ["alice"], owned("alice"))
    for conn in ("carol", "bob", "alice"):
        await expire(p, conn, token, DAY // 4)
    await describe(p, ["alice"], owned("alice"))
    for version, period in ((2, 30 * DAY), (1, 3_600_000)):
        await expire(p, "alice", token, period, version)
        await describe(p, ["alice"], owned("alice"))
    await expire(p, "carol", token)
    await expire(p, "alice", token, -5)
    await expire(p, "alice", token)
    await renew(p, "alice", token)
    await describe(p, ["alice"], owned("alice"))
    other = await create(p, "alice", owner="carol")
    await renew(p, "bob", other)
    await renew(p, "alice", other)
    await expire(p, "alice", other, DAY)
    await renew(p, "carol", other)
    await expire(p, "carol", other)


@script({**SECRET, "delegation.token.expiry.time.ms": 1500}, (NEW,), USERS)
async def tokens_expired(p: Prober) -> None:
    """An expired token cannot be renewed; it is described until the broker deletes expired tokens."""
    await log_in_all(p)
    token = await create(p, "alice", "bob")
    await p.wait(1000, "of the 1,500 ms of the token")
    await renew(p, "alice", token)
    await p.wait(1000, "of another 1,500 ms")
    await renew(p, "bob", token, 5000)
    await p.wait(1700, "until the token has expired")
    await renew(p, "alice", token)
    await renew(p, "carol", token)
    await expire(p, "alice", token, 1000)
    await expire(p, "carol", token, 1000)
    await describe(p, ["alice", "carol"], DescribeDelegationTokenRequest(owners=None))
    now = await create(p, "alice")
    await expire(p, "alice", now, 0)
    await p.wait(100, "until the token has expired")
    await renew(p, "alice", now)
    await describe(p, ["alice"], DescribeDelegationTokenRequest(owners=None))
    await expire(p, "alice", token)
    await expire(p, "alice", now)


@script(
    {**SECRET, "delegation.token.expiry.time.ms": 1000, "delegation.token.expiry.check.interval.ms": 2000},
    (NEW,),
    USERS,
)
async def tokens_deleted(p: Prober) -> None:
    """Expired tokens are deleted after delegation.token.expiry.check.interval.ms."""
    await log_in_all(p)
    token = await create(p, "alice", "bob")
    await p.wait(3500, "until the broker has deleted the token")
    await describe(p, ["alice"], DescribeDelegationTokenRequest(owners=None))
    await renew(p, "alice", token)
    await expire(p, "alice", token)


@script({**SECRET, "delegation.token.max.lifetime.ms": 60_000}, (NEW,), USERS)
async def tokens_of_limited_lifetime(p: Prober) -> None:
    """delegation.token.max.lifetime.ms limits the lifetime of each token."""
    await log_in_all(p)
    tokens = [await create(p, "alice", lifetime=each) for each in (-1, 0, 1_000_000, 30_000)]
    for token in tokens:
        await renew(p, "alice", token, DAY)
    for token in tokens:
        await expire(p, "alice", token)


@script(SECRET, (NEW,), USERS)
async def tokens_of_unknown_ids(p: Prober) -> None:
    """SCRAM authentication with the id of a token that does not exist, and with a user name as a token id."""
    for conn, first in (
        ("unknown", "n,,n=AAAAAAAAAAAAAAAAAAAAAA,r=abc,tokenauth=true"),
        ("user", "n,,n=alice,r=abc,tokenauth=true"),
        ("capitals", "n,,n=alice,r=abc,tokenauth=TRUE"),
        ("false", "n,,n=nobody,r=abc,tokenauth=false"),
        ("other", "n,,n=nobody,r=abc,other=true"),
        ("twice", "n,,n=nobody,r=abc,other=true,tokenauth=true"),
    ):
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            await shake(p, f"{conn}-{mechanism}", mechanism)
            await give(p, f"{conn}-{mechanism}", first.encode())
            await p.closed(f"{conn}-{mechanism}")


@script({**SETTINGS, **SECRET}, (NEW,), ACL_USERS, ("super",))
async def acl_delegation_tokens(p: Prober) -> None:
    """Tokens of other users need CREATE_TOKENS and DESCRIBE_TOKENS on the user, or DESCRIBE on the token."""
    users = NAMES[:5]
    await grant(
        p,
        {
            "one": [(CREATE_TOKENS, USER, "User:two"), (DESCRIBE, DELEGATION_TOKEN, "*")],
            "two": [(DESCRIBE_TOKENS, USER, "User:one")],
            "three": [(CREATE_TOKENS, USER, "User:", PREFIXED), (DESCRIBE_TOKENS, USER, "User:", PREFIXED)],
            "four": [
                (CREATE_TOKENS, USER, "*"),
                (CREATE_TOKENS, USER, "User:one", LITERAL, DENY),
                (DESCRIBE, DELEGATION_TOKEN, "*", LITERAL, ALLOW),
                (DESCRIBE_TOKENS, USER, "*", LITERAL, DENY),
            ],
        },
    )
    await log_in(p, "none")
    tokens = [("one", await create(p, "one", "none")), ("two", await create(p, "two"))]
    for user in users:
        for owner in ("one", "two"):
            created = await p.ask(user, creation(owner=owner), 3)
            if not created.error_code:
                tokens.append((owner, created.hmac))
    await describe(p, users, DescribeDelegationTokenRequest(owners=None))
    await describe(p, users, owned("one"))
    await describe(p, users, owned("two", "one"), 2)
    await describe(p, users, owned())
    wrong = creation(owner="one")
    wrong.renewers = [Renewer(principal_type="Group", principal_name="bob")]
    await p.ask("none", wrong, 3)
    for user in users:
        await renew(p, user, tokens[0][1])
    for owner, hmac in tokens:
        await expire(p, owner, hmac)
    await revoke(p)
