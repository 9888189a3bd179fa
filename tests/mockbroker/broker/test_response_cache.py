"""The response cache: validity by metadata epoch, and its size limit."""

from __future__ import annotations

from mockbroker.broker.response_cache import MAX_BYTES, ResponseCache


def test_response_is_valid_for_its_epoch_only():
    answers = ResponseCache()
    assert answers.get(0, "q") is None
    response, encoded = answers.keep(0, "q", "yes", 10)
    assert (response, encoded) == ("yes", {})
    assert answers.get(0, "q") == ("yes", {})
    assert answers.get(0, "other") is None
    assert answers.get(1, "q") is None
    answers.keep(1, "other", "no", 10)
    assert answers.get(1, "q") is None
    assert answers.get(0, "q") is None


def test_size_is_limited():
    answers = ResponseCache()
    for number in range(10):
        answers.keep(0, number, "yes", MAX_BYTES // 4)
        assert len(answers) <= 4
    assert answers.get(0, 9) is not None


def test_too_large_response_is_not_cached():
    answers = ResponseCache()
    answers.keep(0, "small", "yes", 1)
    assert answers.keep(0, "large", "yes", MAX_BYTES + 1)[0] == "yes"
    assert answers.get(0, "large") is None
    assert answers.get(0, "small") is not None
