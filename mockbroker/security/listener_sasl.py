"""The SASL settings of one listener: its mechanisms, and the rules for OAUTHBEARER tokens. The functions are pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kwire.lazy_dataclass import dataclass
from mockbroker.base.settings import OF_LISTENER, Settings, SettingsError, listener_prefix

MECHANISMS, JAAS = "sasl.enabled.mechanisms", "sasl.jaas.config"
OF_VALIDATOR = "unsecuredValidator"  # prefix of the options of OAuthBearerLoginModule that brokers use


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The rules by which a listener checks unsecured OAUTHBEARER tokens.

    Attributes:
        principal_claim: name of the claim with the user's name.
        scope_claim: name of the claim with the scope.
        required_scope: elements that the scope must contain.
        clock_skew_ms: permitted difference between the clocks of the issuer and the broker, in milliseconds.
    """

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0


@dataclass(frozen=True, slots=True)
class ListenerSasl:
    """The SASL settings of a listener.

    Attributes:
        mechanisms: SASL mechanisms of this listener, separated by commas; "" for the mechanisms in
            ``sasl.enabled.mechanisms``.
        token_rules: the rules for OAUTHBEARER tokens.
    """

    mechanisms: str = ""
    token_rules: TokenRules = TokenRules()


def listener_sasl(settings: Settings, listener: str) -> ListenerSasl:
    """Return the SASL settings of a listener.

    Args:
        settings: the static settings of the brokers.
        listener: name of the listener.

    Raises:
        SettingsError: A SASL setting of the listener is not valid.
    """
    prefix = listener_prefix(listener)
    mechanisms = settings.others.get(f"{prefix}{MECHANISMS}")
    own = "" if mechanisms is None else _checked_mechanisms(f"{prefix}{MECHANISMS}", mechanisms)
    name = f"{prefix}oauthbearer.{JAAS}"
    if name not in settings.others:
        return ListenerSasl(own)
    from mockbroker.security.jaas import parse_options  # late: few clusters

    return ListenerSasl(own, token_rules(name, parse_options(name, settings.others[name])))


def all_mechanisms(settings: Settings, listeners: Iterable[str]) -> set[str]:
    """Return the mechanisms that at least one listener enables. ``listeners``: names of the listeners."""
    texts = (listener_sasl(settings, each).mechanisms or settings.sasl_enabled_mechanisms for each in listeners)
    return {mechanism for text in texts for mechanism in text.split(",")}


def jaas_users(settings: Settings) -> dict[str, str]:
    """Return the passwords by user name from the JAAS settings of PLAIN of all listeners.

    Raises:
        SettingsError: A JAAS setting is not valid.
    """
    names = [name for name in settings.others if name.startswith(OF_LISTENER) and name.endswith(f".plain.{JAAS}")]
    if not names:
        return {}
    from mockbroker.security.jaas import parse_options, plain_users  # late: few clusters

    return {
        user: password for name in names for user, password in plain_users(parse_options(name, settings.others[name]))
    }


def _checked_mechanisms(name: str, text: str) -> str:
    try:
        return Settings.parse({MECHANISMS: text}).sasl_enabled_mechanisms
    except SettingsError as error:
        raise SettingsError(str(error).replace(MECHANISMS, name, 1)) from error


def token_rules(name: str, options: Mapping[str, str]) -> TokenRules:
    """Return the rules by which a listener checks OAUTHBEARER tokens, from its JAAS configuration.

    Args:
        name: name of the JAAS setting that contains the options, for error messages.
        options: the options of OAuthBearerLoginModule. Options that do not begin with ``unsecuredValidator`` configure
            clients, and are ignored.

    Raises:
        SettingsError: The value of an option is not valid.
    """
    from mockbroker.security.jaas import SCOPE  # late: few clusters

    own = {option: value.strip() for option, value in options.items() if option.startswith(OF_VALIDATOR)}
    rules = {option.removeprefix(OF_VALIDATOR): value for option, value in own.items()}
    scope = tuple(rules.get("RequiredScope", "").split())
    if wrong := [each for each in scope if not SCOPE.fullmatch(each)]:
        raise SettingsError(f"{name}: {OF_VALIDATOR}RequiredScope: {wrong[0]!r} is not a valid element of a scope")
    skew = rules.get("AllowableClockSkewMs") or "0"
    if not skew.isascii() or not skew.isdecimal() or int(skew) >= 2**31:
        raise SettingsError(f"{name}: {OF_VALIDATOR}AllowableClockSkewMs: expected 0 to {2**31 - 1}, got {skew!r}")
    default = TokenRules()
    return TokenRules(
        rules.get("PrincipalClaimName") or default.principal_claim,
        rules.get("ScopeClaimName") or default.scope_claim,
        scope,
        int(skew),
    )
