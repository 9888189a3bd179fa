"""The control API of ``mockbroker serve``: the cluster over HTTP, served in its trio run by starlette and hypercorn.

``table.py`` is the table of all routes; each resource has a module in ``resources/``. docs/control-api.md explains it.
"""
