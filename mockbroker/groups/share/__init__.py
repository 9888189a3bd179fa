"""Share groups (KIP-932): members, assignments, and the initialization of share partitions."""
