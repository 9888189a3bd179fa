"""The broker without IO, scripted clients, a pretend network and disk, in virtual time; same seed, same run."""
