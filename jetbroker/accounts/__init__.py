"""What belongs to whom: an account with its router, its users and its limits.

May import routing, auth and config.
"""
