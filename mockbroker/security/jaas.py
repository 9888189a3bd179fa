"""Parsing of JAAS settings, such as ``listener.name.sasl_plaintext.plain.sasl.jaas.config``. The functions are pure.

Source: Kafka's JaasConfig, PlainServerCallbackHandler and OAuthBearerUnsecuredValidatorCallbackHandler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from mockbroker.base.settings import SettingsError

USER = "user_"  # prefix of the options of PlainLoginModule that set the password of a user
OPTION = r'[^\s=;"]+\s*=\s*(?:"(?:[^"\\]|\\.)*"|[^\s;"]+)'
LOGIN_MODULE = re.compile(rf"\s*[\w.$]+\s+(?i:required|requisite|sufficient|optional)((?:\s+{OPTION})*)\s*;\s*")
NAMED_OPTION = re.compile(r'([^\s=;"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")  # an element of the scope of a token


def parse_options(name: str, text: str) -> dict[str, str]:
    """Return the options of the login module in a JAAS setting: option name -> value.

    Args:
        name: Kafka's name of the setting, for error messages.
        text: value of the setting: the class of the login module, a control flag, options and a semicolon.

    Raises:
        SettingsError: The value does not have this format.
    """
    match = LOGIN_MODULE.fullmatch(text)
    if match is None:
        raise SettingsError(f'{name}: expected one login module, as in: CLASS required OPTION="VALUE";')
    found = NAMED_OPTION.finditer(match[1])
    return {each[1]: re.sub(r"\\(.)", r"\1", each[2]) if each[2] is not None else each[3] for each in found}


def plain_users(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield user name and password of each user of PLAIN. ``options``: the options of PlainLoginModule."""
    for option, value in options.items():
        if option.startswith(USER):
            yield option.removeprefix(USER), value
