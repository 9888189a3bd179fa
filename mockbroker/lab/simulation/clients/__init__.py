"""The scripted clients of the simulation. They do no IO, follow Kafka's client protocols, and retry as real clients
do.
"""
