"""Versions of servers: `2.10.4`, maybe with something behind it."""

import re

_VERSION = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})")


def is_at_least(version: str, least: str) -> bool:
    """Is a server of this version new enough? What is no version is not."""
    found, wanted = _VERSION.match(version), _VERSION.match(least)
    if found is None or wanted is None:
        return False
    return tuple(map(int, found.groups())) >= tuple(map(int, wanted.groups()))
