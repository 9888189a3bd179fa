"""The scripted clients of the simulation, which follow Kafka's client protocols and retry as real clients do.

The clients do no IO.
"""
