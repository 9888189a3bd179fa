"""The attributes of a declared class and of an API."""

import pytest

from kwire.errors import SchemaError
from kwire.messages import APIS, MODULES, api_named
from kwire.messages.join_group import JOIN_GROUP, JoinGroupRequest, JoinGroupResponse
from kwire.schema import (
    ALL_VERSIONS,
    Api,
    String,
    Versions,
    request,
    response,
    schema_of,
    unknown_tags,
)


def test_schema_of_a_declared_class() -> None:
    schema = schema_of(JoinGroupRequest)
    assert (schema.name, schema.api, str(schema.versions), str(schema.flexible)) == (
        "JoinGroupRequest",
        JOIN_GROUP,
        "0-9",
        "6+",
    )
    assert schema.fields["reason"].versions == Versions(8, None)
    assert schema.fields["group_id"].versions == ALL_VERSIONS
    assert schema_of(JoinGroupRequest.Protocol).versions is None
    with pytest.raises(
        SchemaError,
        match="is not a declared message or struct: declare the class with request, response, data or struct",
    ):
        schema_of(int)


def test_api() -> None:
    api = Api(999, versions="0-2", flexible="none")

    @request(api)
    class EchoRequest:
        text: str = String()

    @response(api)
    class EchoResponse:
        text: str = String()

    assert (api.request, api.response, api.name) == (EchoRequest, EchoResponse, "Echo")
    assert repr(api) == "<Api 999 Echo v0-2>"


def test_apis() -> None:
    assert list(APIS) == sorted(MODULES)
    assert len(APIS) == len(MODULES)
    assert [api.key for api in APIS.values()] == list(APIS)
    assert (APIS[11].request, APIS[11].response) == (JoinGroupRequest, JoinGroupResponse)
    assert 9999 not in APIS
    assert {api_named(api.name) for api in APIS.values()} == set(APIS.values())
    with pytest.raises(KeyError):
        api_named("Join")


def test_unknown_tags_of_anything() -> None:
    assert unknown_tags(JoinGroupRequest()) == {}
    assert unknown_tags(object()) == {}
