from __future__ import annotations

from kwire.extras import missing


def test_the_package_and_the_extra_are_named() -> None:
    error = missing(ModuleNotFoundError("No module named 'pyarrow.parquet'", name="pyarrow.parquet"), "capture")
    assert (str(error), error.name) == ("pyarrow is missing: pip install 'kwire[capture]'", "pyarrow.parquet")


def test_a_module_of_our_own_is_a_bug() -> None:
    error = ModuleNotFoundError("No module named 'kwire.nope'", name="kwire.nope")
    assert missing(error, "capture") is error
