"""What somebody may have meant."""

from collections.abc import Iterable

_LONGEST = 64


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean "x"?` where a known word is close; else empty."""
    from difflib import get_close_matches  # only where something is wrong

    word = word[:_LONGEST]
    found = get_close_matches(word, list(known))
    found.sort(key=lambda near: sorted(near) != sorted(word))  # letters in another order are the likeliest slip
    return f'did you mean "{found[0]}"?' if found else ""
