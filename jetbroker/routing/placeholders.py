"""The language of subject transforms: a source and a destination in, the steps of the transform out.

Everything is bytes: nats-server counts bytes too where a function cuts a token. Errors have nats-server's texts.
"""

import functools
import re
from bisect import bisect_left
from enum import IntEnum
from typing import NamedTuple

FUNCTION_ARGUMENT_MAX = 2**31 - 1
INDEX_MAX = 2**63 - 1


class TransformError(ValueError):
    """A source and a destination that make no transform; the text is nats-server's."""


class Kind(IntEnum):
    """What one token of a destination does."""

    LITERAL = 0
    WILDCARD = 1
    PARTITION = 2
    SPLIT_FROM_LEFT = 3
    SPLIT_FROM_RIGHT = 4
    SLICE_FROM_LEFT = 5
    SLICE_FROM_RIGHT = 6
    SPLIT = 7
    LEFT = 8
    RIGHT = 9
    RANDOM = 10


class Step(NamedTuple):
    """One token of a destination. `tokens` are the 0-based places in the source that it takes."""

    kind: Kind
    tokens: tuple[int, ...] = ()
    number: int = 0
    text: bytes = b""


_FUNCTIONS = {
    "wildcard": Kind.WILDCARD,
    "partition": Kind.PARTITION,
    "splitfromleft": Kind.SPLIT_FROM_LEFT,
    "splitfromright": Kind.SPLIT_FROM_RIGHT,
    "slicefromleft": Kind.SLICE_FROM_LEFT,
    "slicefromright": Kind.SLICE_FROM_RIGHT,
    "right": Kind.RIGHT,
    "left": Kind.LEFT,
    "split": Kind.SPLIT,
    "random": Kind.RANDOM,
}  # in the order they are looked for


def _spellings(word: str) -> str:
    """Each part's first letter may be large or small."""
    parts = re.findall("split|slice|from|.+", word) if word.startswith(("split", "slice")) else [word]
    return "".join(f"[{part[0]}{part[0].upper()}]{part[1:]}" for part in parts)


@functools.cache  # most brokers have no transforms: they start without these
def _marks() -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """What a function begins and ends with; nothing is anchored: so it is in nats-server."""
    names = "|".join(f"({_spellings(word)})" for word in _FUNCTIONS)
    blanks = r"[\t\n\f\r ]*+"
    return (
        re.compile((r"\{\{" + blanks + f"(?:{names})" + blanks + r"\(").encode()),
        re.compile((r"\)" + blanks + r"\}\}").encode()),
    )


def _find_functions(token: bytes) -> dict[Kind, bytes]:
    """The functions in a token, each with the text between its parentheses, in time linear in the token.

    A function's first beginning counts with the last end on the same line.
    """
    found: dict[Kind, bytes] = {}
    begin, end = _marks()
    kinds = tuple(_FUNCTIONS.values())
    ends = [mark.start() for mark in end.finditer(token)]
    passed = -1  # no function begins up to here: its line has no end behind that
    for mark in begin.finditer(token):
        kind, start = kinds[(mark.lastindex or 0) - 1], mark.end()
        if kind in found or start <= passed:
            continue
        line_end = token.find(b"\n", start)
        last = bisect_left(ends, len(token) if line_end < 0 else line_end) - 1
        if last < 0 or ends[last] < start:
            passed = len(token) if line_end < 0 else line_end
        else:
            found[kind] = token[start : ends[last]]
            if len(found) == len(kinds):
                break
    return found


_NOT_IN_MAPPINGS = {Kind.LEFT, Kind.RIGHT}
_COMMA = re.compile(rb",[\t\n\f\r ]*")
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_BLANKS = b"\t\n\f\r "


def compile_steps(source: bytes, destination: bytes, strict: bool) -> list[Step]:
    """The steps of a transform; `strict` allows wildcards only and wants all of them used. Raises TransformError."""
    source_tokens, destination_tokens = source.split(b"."), destination.split(b".")
    if not (_is_valid(source_tokens) and _is_valid(destination_tokens)) or b"*" in destination_tokens:
        raise TransformError("invalid subject")
    if (source_tokens[-1] == b">") != (destination_tokens[-1] == b">"):
        raise TransformError("invalid subject")
    wildcards = [place for place, token in enumerate(source_tokens) if token == b"*"]
    if not wildcards and source_tokens[-1] != b">":
        return [_step_without_wildcards(token) for token in destination_tokens]
    steps = []
    for token in destination_tokens:
        kind, indexes, number, text = _parse(token)
        if strict and kind not in (Kind.LITERAL, Kind.WILDCARD):
            raise _invalid("the only mapping function allowed for import transforms is {{Wildcard()}}", token)
        for index in indexes:
            if index > len(wildcards):
                raise _invalid("wildcard index out of range", token + b": [%d]" % index)
        # an index below 1 means the subject's first token: so it is in nats-server
        tokens = tuple(wildcards[index - 1] if index > 0 else 0 for index in indexes)
        steps.append(Step(kind, tokens, number, token if kind == Kind.LITERAL else text))
    if strict and sum(len(step.tokens) for step in steps) < len(wildcards):
        raise _invalid("not using all of the token wildcard(s)", destination)
    return steps


def check_mapping(source: bytes, destination: bytes) -> None:
    """What a mapping's or a stream's destination must be beside a good transform. Raises TransformError."""
    if not destination:
        return
    ended = False
    for token in destination.split(b"."):
        if not token or ended:
            raise _invalid("invalid transform", token)
        if _is_function(token):
            if not _find_functions(token).keys() - _NOT_IN_MAPPINGS:
                raise _invalid("unknown function", token)
            continue
        if token == b">":
            ended = True
        elif any(blank in token for blank in _BLANKS):
            raise _invalid("invalid transform", b"")
    compile_steps(source or b">", destination, False)


def number_wildcards(subject: bytes) -> bytes:
    """`a.*.*` to `a.$1.$2`."""
    found = 0
    tokens = subject.split(b".")
    for place, token in enumerate(tokens):
        if token == b"*":
            found += 1
            tokens[place] = b"$%d" % found
    return b".".join(tokens)


def take_placeholders(destination: bytes) -> tuple[bytes, list[bytes]]:
    """`a.$2.$1` to `a.*.*` and the placeholders in their order."""
    placeholders = []
    tokens = destination.split(b".")
    for place, token in enumerate(tokens):
        found = _find_functions(token).get(Kind.WILDCARD)
        arguments = [] if found is None else _COMMA.split(found)
        numbered = len(token) > 1 and token[:1] == b"$" and token[1:2] in b"123456789"
        if numbered or (len(arguments) == 1 and arguments[0]):
            placeholders.append(token)
            tokens[place] = b"*"
    return b".".join(tokens), placeholders


def reverse(source: bytes, destination: bytes) -> tuple[bytes, bytes] | None:
    """Source and destination of the transform that undoes this strict one; None: it cannot be undone."""
    if b"*" not in source.split(b".") and not source.endswith(b">"):
        return destination, source
    new_source, placeholders = take_placeholders(destination)
    tokens = source.split(b".")
    for place, token in enumerate(tokens):
        if token == b"*":
            if not placeholders:
                return None
            tokens[place] = placeholders.pop(0)
    return new_source, b".".join(tokens)


def _step_without_wildcards(token: bytes) -> Step:
    kind, _, number, _ = _parse(token)
    if kind == Kind.LITERAL:
        return Step(kind, text=token)
    if kind not in (Kind.RANDOM, Kind.PARTITION):
        raise _invalid("wildcard index out of range", token)
    return Step(kind, number=number)


def _parse(token: bytes) -> tuple[Kind, tuple[int, ...], int, bytes]:
    """(kind, indexes of wildcards, number, text) of one token of a destination. Raises TransformError."""
    if len(token) > 1 and token[:1] == b"$":
        index = _integer(token[1:])
        return (Kind.LITERAL, (), 0, b"") if index is None else (Kind.WILDCARD, (index,), 0, b"")
    if not _is_function(token):
        return Kind.LITERAL, (), 0, b""
    found = _find_functions(token)
    for kind in _FUNCTIONS.values():
        if kind in found:
            return _parse_arguments(token, kind, _COMMA.split(found[kind]))
    raise _invalid("unknown function", token)


def _parse_arguments(token: bytes, kind: Kind, arguments: list[bytes]) -> tuple[Kind, tuple[int, ...], int, bytes]:
    if kind == Kind.WILDCARD:
        if arguments == [b""]:
            raise _invalid("not enough arguments passed to the function", token)
        if len(arguments) > 1:
            raise _invalid("too many arguments passed to the function", token)
        return kind, (_argument(token, arguments[0]),), 0, b""
    if kind == Kind.PARTITION:
        number = _argument(token, arguments[0], -INDEX_MAX - 1, FUNCTION_ARGUMENT_MAX)
        return kind, tuple(_argument(token, argument) for argument in arguments[1:]), _int32(number), b""
    if kind == Kind.RANDOM:
        if len(arguments) != 1:
            raise _invalid("not enough arguments passed to the function", token)
        return kind, (), _int32(_argument(token, arguments[0], -INDEX_MAX - 1, FUNCTION_ARGUMENT_MAX)), b""
    if len(arguments) < 2:
        raise _invalid("not enough arguments passed to the function", token)
    if len(arguments) > 2:
        raise _invalid("too many arguments passed to the function", token)
    index = _argument(token, arguments[0])
    if kind != Kind.SPLIT:
        number = _argument(token, arguments[1], -FUNCTION_ARGUMENT_MAX - 1, FUNCTION_ARGUMENT_MAX)
        return kind, (index,), number, b""
    if b" " in arguments[1] or b"." in arguments[1]:
        raise _invalid("function argument is invalid or in the wrong format", token)
    return kind, (index,), 0, arguments[1]


def _argument(token: bytes, text: bytes, least: int = -INDEX_MAX - 1, most: int = INDEX_MAX) -> int:
    number = _integer(text.strip(b" "))
    if number is None or not least <= number <= most:
        raise _invalid("function argument is invalid or in the wrong format", token)
    return number


def _integer(text: bytes) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    # more digits than any 64-bit number has are refused before int() works on them
    digits = text.lstrip(b"+-").lstrip(b"0")
    if len(digits) > 19:
        return None
    number = int(digits or b"0") * (-1 if text.startswith(b"-") else 1)
    return number if -INDEX_MAX - 1 <= number <= INDEX_MAX else None


def _int32(number: int) -> int:
    """As it is cut off when stored in 32 bits."""
    return (number + 2**31) % 2**32 - 2**31


def _is_function(token: bytes) -> bool:
    return len(token) > 4 and token.startswith(b"{{") and token.endswith(b"}}")


def _is_valid(tokens: list[bytes]) -> bool:
    return all(tokens) and b">" not in tokens[:-1]


def _invalid(what: str, where: bytes) -> TransformError:
    place = f" in {where.decode('utf-8', 'replace')}" if where else ""
    return TransformError(f"invalid mapping destination: {what}{place}")
