"""Who somebody is: passwords, tokens and users against what a CONNECT says.

May import config.
"""
