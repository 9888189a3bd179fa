"""The response cache: validity by metadata epoch, and its size limit."""

from __future__ import annotations

from mockbroker.broker.response_cache import MAX_BYTES, ResponseCache


def test_response_is_valid_for_its_epoch_only():
    responses = ResponseCache()
    assert responses.get(0, "q") is None
    response, encoded = responses.keep(0, "q", "yes", 10)
    assert (response, encoded) == ("yes", {})
    assert responses.get(0, "q") == ("yes", {})
    assert responses.get(0, "other") is None
    assert responses.get(1, "q") is None
    responses.keep(1, "other", "no", 10)
    assert responses.get(1, "q") is None
    assert responses.get(0, "q") is None


def test_size_is_limited():
    responses = ResponseCache()
    for number in range(10):
        responses.keep(0, number, "yes", MAX_BYTES // 4)
        assert len(responses) <= 4
    assert responses.get(0, 9) is not None


def test_too_large_response_is_not_cached():
    responses = ResponseCache()
    responses.keep(0, "small", "yes", 1)
    assert responses.keep(0, "large", "yes", MAX_BYTES + 1)[0] == "yes"
    assert responses.get(0, "large") is None
    assert responses.get(0, "small") is not None
