"""Links to other servers.

May import routing, accounts, auth, connections, wire, config, logs and forms.
"""
