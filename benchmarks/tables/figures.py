"""What was measured, beside what it must reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

HEADINGS = ("", "measured", "unit", "must reach", "reached", "made of")


@dataclass(frozen=True)
class Figure:
    """One row of the report: a value in its unit, the bound (if any), and what the value was made of."""

    title: str
    value: float
    unit: str = "x"
    most: float | None = None
    least: float | None = None
    made_of: str = ""

    @property
    def reached(self) -> bool | None:
        """None: there is no bound."""
        if self.most is not None:
            return self.value <= self.most
        return None if self.least is None else self.value >= self.least

    @property
    def bound(self) -> str:
        if self.most is not None:
            return f"<= {shown(self.most)}"
        return "" if self.least is None else f">= {shown(self.least)}"


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value >= 100 else f"{value:.2f}"


class Figures:
    """Every figure as it is found."""

    def __init__(self) -> None:
        self.found: list[Figure] = []
        self.failed: list[str] = []
        self.console = Console(width=150, highlight=False)

    def add(self, figure: Figure) -> None:
        """Tells it at once: a run takes minutes."""
        self.found.append(figure)
        text = f"{figure.title}: {shown(figure.value)} {figure.unit} {figure.bound}; {figure.made_of}"
        self.console.print(text, markup=False, soft_wrap=True)

    def add_all(self, figures: Iterable[Figure]) -> None:
        """Those of one part of the run; what fails there leaves the other parts as they are."""
        try:
            for figure in figures:
                self.add(figure)
        except Exception as error:
            reason = str(error).partition("\n")[0]
            self.failed.append(reason)
            self.console.print(f"failed: {reason}", style="bold red", markup=False, soft_wrap=True)

    def print(self, title: str) -> None:
        table = Table(title=title)
        for heading in HEADINGS:
            table.add_column(heading, justify="right" if heading in ("measured", "must reach") else "left")
        for figure in self.found:
            word = {True: "yes", False: "NO", None: ""}[figure.reached]
            style = {"yes": "green", "NO": "bold red"}.get(word, "")
            cells = (figure.title, shown(figure.value), figure.unit, figure.bound, word, figure.made_of)
            table.add_row(*cells, style=style)
        self.console.print(table)
        missed = "; ".join(self.missed)
        self.console.print(f"not reached: {missed}" if missed else "every bound is reached", markup=False)

    @property
    def missed(self) -> list[str]:
        """What did not reach its bound, and what failed."""
        short = [figure.title for figure in self.found if figure.reached is False]
        return short + [f"failed: {reason}" for reason in self.failed]


@dataclass(frozen=True)
class Taken:
    """Seconds of a query, by the clock and of the CPU of all its processes."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.3f} s (CPU {self.cpu:.2f})"


def ratio(title: str, ours: Taken, theirs: Taken, what: str, most: float | None = None) -> Figure:
    """How many times as long as `what` we take."""
    return Figure(title, ours.wall / theirs.wall, most=most, made_of=f"{ours}, {what} {theirs}")
