"""The handlers of the control API: one module for each resource."""
