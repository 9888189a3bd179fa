"""A Kafka cluster for tests, in the same process: ``run_cluster`` for any code, ``open_cluster`` for trio.

Consumer groups behave as in Apache Kafka. Each public name is imported when it is first used, because pytest loads
this package in every run, also if no test needs a broker.
"""

from functools import cache


@cache
def _homes() -> dict[str, str]:
    """Return module names by public name, read from the imports in ``__init__.pyi``."""
    homes = {}
    for line in __spec__.loader.get_data(f"{__file__}i").decode().splitlines():  # ``__init__.pyi``
        if line.startswith("from "):
            module, names = line.removeprefix("from ").split(" import ")
            homes |= {name.split(" as ")[0]: module for name in names.split(", ")}
    return homes


def __getattr__(name: str) -> object:
    homes = {} if name.startswith("_") and name != "__all__" else _homes()
    if name == "__all__":
        return sorted(homes)
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(homes[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_homes()})
