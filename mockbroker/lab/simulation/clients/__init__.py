"""Scripted clients without IO, which behave as real ones do: they believe what they are told, and come again."""
