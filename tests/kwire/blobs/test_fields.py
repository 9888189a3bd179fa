from __future__ import annotations

import pytest

from kwire.blobs import STORED
from kwire.blobs.fields import INSIDE
from kwire.messages import APIS
from kwire.schema import schema_of

MESSAGES = {message.__name__: message for api in APIS.values() for message in (api.request, api.response)}


@pytest.mark.parametrize(("path", "blob"), INSIDE.items())
def test_fields_of_bytes_and_stored_blobs(path: str, blob: str) -> None:
    name, *structs, field = path.split(".")
    struct: type = MESSAGES[name]
    for each in structs:
        struct = getattr(struct, each)
    assert schema_of(struct).fields[field].kind == "bytes"
    assert blob in STORED
