"""Operator mode: what operators, accounts and users are told to be by signed tokens (JWTs).

An account's token is configuration that came signed instead of in a file; so it is read here, to the same options.
"""
