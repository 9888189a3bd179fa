"""The simulation: the broker with scripted clients, a simulated network and disk, in virtual time, from a seed."""
