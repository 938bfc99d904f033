"""How the pages of configurations are written down."""

from __future__ import annotations


def lines(text: str) -> list[str]:
    """One configuration a line; `~` stands for a line end."""
    return [line.replace("~", "\n") for line in text.strip().split("\n")]
