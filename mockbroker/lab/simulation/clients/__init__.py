"""The scripted clients of the simulation.

They follow Kafka's client protocols, retry as real clients do, and do no IO.
"""
