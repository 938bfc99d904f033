"""Checks of subject transforms as they stand in stream configurations."""

import re

from jetbroker.wire.subjects import valid_subject

_FUNCTION = re.compile(r"^\{\{\s*(\w+)\s*\((.*)\)\s*\}\}$")
_POSITION = re.compile(r"^\$([0-9]+)$")
_KNOWN = frozenset(
    "wildcard partition random split splitfromleft splitfromright slicefromleft slicefromright left right".split()
)


def transform_fault(src: str, dest: str) -> tuple[bool, str]:
    """(is it the source's fault, text); the text is empty when the transform is good."""
    if not dest:
        return False, ""
    if src and not valid_subject(src.encode()):
        return True, f"invalid subject {src}"
    tokens = src.split(".") if src else [">"]
    stars = tokens.count("*")
    dest_tokens = dest.split(".")
    if not valid_subject(dest.encode()):
        return False, f"invalid mapping destination: invalid subject {dest}"
    used = 0
    for token in dest_tokens:
        fault, count = _token_fault(token, stars)
        if fault:
            return False, f"invalid mapping destination: {fault}"
        used += count
    if ">" in dest_tokens and tokens[-1] != ">":
        return False, f"invalid mapping destination: {dest}"
    if dest_tokens.count("*") not in (0, stars):
        return False, f"invalid mapping destination: {dest}"
    return False, ""


def _token_fault(token: str, stars: int) -> tuple[str, int]:
    """(what is wrong with this token of the destination, how many wildcards it uses)."""
    position = _POSITION.match(token)
    if position:
        index = int(position.group(1))
        return (f"wildcard index out of range in {token}: [{index}]", 0) if index > stars else ("", 1)
    if not (token.startswith("{{") and token.endswith("}}")):
        return "", 0
    function = _FUNCTION.match(token)
    if function is None or function.group(1).lower() not in _KNOWN:
        return f"unknown function in {token}", 0
    if function.group(1).lower() in ("partition", "random"):
        return "", 0
    first = function.group(2).split(",")[0].strip()
    if not first.isdigit():
        return f"invalid argument in {token}", 0
    if int(first) > stars or int(first) < 1:
        return f"wildcard index out of range in {token}: [{int(first)}]", 0
    return "", 1
