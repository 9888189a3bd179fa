"""The control API: an HTTP API to read and change the cluster, with starlette and hypercorn.

``mockbroker serve`` has it, and ``mockbroker proxy`` has a part of it.

``table.py`` is the table of all routes; each resource has a module in ``resources/``. docs/control-api.md explains it.
"""
