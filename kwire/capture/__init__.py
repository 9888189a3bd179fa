"""Captured traffic: packets to byte streams to calls (extra ``kwire[capture]``)."""
