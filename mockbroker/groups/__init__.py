"""The group coordinator: pure, deterministic, in virtual time."""
