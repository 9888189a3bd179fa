"""The control API of ``mockbroker serve``: an HTTP API to read and change the cluster, with starlette and hypercorn.

``table.py`` is the table of all routes; each resource has a module in ``resources/``. docs/control-api.md explains it.
"""
