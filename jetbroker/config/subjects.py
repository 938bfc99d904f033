"""What a subject in a configuration must be. (The routing room's own checks work on bytes, and config is below it.)"""

_BLANKS = frozenset(" \t\n\r\f")


def is_valid_subject(subject: str) -> bool:
    """Tokens between dots, none empty, none with a blank; `>` only as the last one."""
    tokens = subject.split(".")
    return all(tokens) and _BLANKS.isdisjoint(subject) and ">" not in tokens[:-1]


def is_literal(subject: str) -> bool:
    """True without wildcards."""
    return not any(token in ("*", ">") for token in subject.split("."))
