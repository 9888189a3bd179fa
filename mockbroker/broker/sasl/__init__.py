"""How clients say who they are: one file a mechanism, and the order in which a connection goes about it."""
