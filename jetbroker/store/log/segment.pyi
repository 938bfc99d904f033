class Ranges:
    """A growing list of inclusive sequence ranges."""

    def pairs(self) -> list[tuple[int, int]]: ...
