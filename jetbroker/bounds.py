"""The ranges that integers from outside are brought into before anything computes with them.

What counts in C (`int64_t`, `uint64_t`) is bounded here on its way in, and added in C by `saturate.pxd`: so no sum of
two times or two sequences can wrap around. Bounds with a meaning of their own stand in `limits.py`.
"""

INT32_MAX = 2**31 - 1
INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1
UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1
UINT64_DIGITS = 20  # of the largest; a longer run of digits is refused before it is converted


def clamp_int64(value: int) -> int:
    """`value`, or the nearest integer that 64 signed bits hold."""
    return min(max(value, INT64_MIN), INT64_MAX)


def least(*bounds: int) -> int:
    """The bound that holds among several, of which negative ones are none; negative: nothing bounds it."""
    return min((bound for bound in bounds if bound >= 0), default=-1)


def decimal(text: str | bytes, highest: int = UINT64_MAX) -> int | None:
    """The number a run of ASCII digits stands for; None for anything else and for what is beyond `highest`.

    The work is bounded by the digits of the largest number, whatever the length of `text`; leading zeros count as
    digits.
    """
    if not 0 < len(text) <= UINT64_DIGITS or not text.isascii() or not text.isdigit():
        return None
    number = int(text)
    return number if number <= highest else None
