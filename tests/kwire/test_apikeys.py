"""API keys are those of the messages."""

from __future__ import annotations

import pytest

from kwire.apikeys import ApiKey
from kwire.messages import APIS


@pytest.mark.parametrize("key", ApiKey)
def test_key_is_that_of_the_declared_api(key: ApiKey) -> None:
    api = APIS[key]
    assert (api.key, api.name.lower()) == (key, key.name.replace("_", "").lower())


def test_key_is_equal_to_its_number() -> None:
    assert ApiKey.JOIN_GROUP == 11
    assert {11: "JoinGroup"}[ApiKey.JOIN_GROUP] == "JoinGroup"
    assert f"{ApiKey.JOIN_GROUP}" == "11"
