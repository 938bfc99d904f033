"""A broker in a process of its own, for users' own tests.

May import everything; nothing in jetbroker imports it.
"""
