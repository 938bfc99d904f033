"""Text of strangers on a terminal: it cannot move the cursor, or do anything else."""


def safe(text: str) -> str:
    """Printable characters as they are, the others escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
