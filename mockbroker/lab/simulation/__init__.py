"""The simulation: seeded runs of the broker with scripted clients, a simulated network and disk, in virtual time."""
