"""Backup and restore over the protocol, in the archive that nats-server makes and takes.

`snapshot` sends a stream out, `restore` takes one in; `archive` has the archive's parts.
"""
