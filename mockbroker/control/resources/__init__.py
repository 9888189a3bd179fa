"""The handlers of the control API: one module for each resource.

A handler gets the state of the control API (``Control``) and a request with valid parameters and body
(``CheckedRequest``). It returns the response as an ``Answer`` or a ``Response``, or raises ``Refused``.
"""
