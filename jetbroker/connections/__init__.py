"""Sockets: the listener and the client's input and output.

May import accounts, routing and wire. Per message work is compiled (`client.pyx`), the rest is Python.
"""
