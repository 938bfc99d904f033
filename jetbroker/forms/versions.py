"""Versions of servers, as semver has them: `2.10.4`, maybe with something behind it."""

import re

_NUMBER = r"(0|[1-9][0-9]{0,17})"  # as many digits as 64 bits hold for certain
_WORD = r"(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_WORD}(?:\.{_WORD})*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)


def components(version: str) -> tuple[int, ...] | None:
    """Its three numbers; None: it is no version."""
    found = _VERSION.fullmatch(version)
    return None if found is None else tuple(map(int, found.groups()))


def is_at_least(version: str, least: str) -> bool:
    """Is a server of this version new enough? What is no version is not."""
    found, wanted = components(version), components(least)
    return found is not None and wanted is not None and found >= wanted
