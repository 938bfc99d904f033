"""Pictures of what jobs found: PNG, or HTML that holds its picture and its numbers itself."""

from __future__ import annotations

import argparse
import html
import io
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from jetbroker.errors import StoreReadError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENDINGS = (".png", ".html")
INCHES = (10.0, 3.6)  # of one chart
DPI = 120
MOST_BARS = 20  # with a name beside each
MOST_SERIES = 10
MOST_TIMES = 2000  # more are thinner than a pixel
REST = "others"
# names of clients are shown as they are: a $ begins no formula
STYLE = {
    "text.parse_math": False,
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 14px sans-serif; margin: 2em auto; max-width: 62em; }} svg {{ width: 100%; height: auto; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .1em 1em .1em 0; text-align: right; }}
td:first-child, th:first-child {{ text-align: left; }}
</style></head>
<body><h1>{title}</h1>
{charts}
</body></html>
"""


@dataclass(frozen=True)
class OverTime:
    """Values at times (seconds since 1970), each of which stands for `width` seconds; as stacked bars, or as lines."""

    title: str
    unit: str
    times: Sequence[int]
    series: Mapping[str, Sequence[float]]
    width: int
    lines: bool = False

    def shortened(self) -> OverTime:
        """The last of its times, when there are too many."""
        if len(self.times) <= MOST_TIMES:
            return self
        title = f"{self.title} (the last {MOST_TIMES:,} of {len(self.times):,} lines)"
        series = {name: values[-MOST_TIMES:] for name, values in self.series.items()}
        return replace(self, title=title, times=self.times[-MOST_TIMES:], series=series)

    @property
    def names(self) -> list[str]:
        return [f"{_moment(time):%Y-%m-%d %H:%M:%S}" for time in self.times]

    def draw(self, axes: Axes) -> None:
        from matplotlib.dates import ConciseDateFormatter

        at = [_moment(time).replace(tzinfo=None) for time in self.times]
        if self.lines:
            for name, values in self.series.items():
                axes.plot(at, values, label=name, marker="." if len(at) < 60 else "")
        else:
            below = [0.0] * len(at)
            for name, values in self.series.items():
                axes.bar(at, values, timedelta(seconds=self.width), below, align="edge", label=name)
                below = [low + value for low, value in zip(below, values, strict=True)]
        axes.xaxis.set_major_formatter(ConciseDateFormatter(axes.xaxis.get_major_locator()))
        axes.set_ylabel(self.unit)
        axes.set_xlabel("UTC")
        axes.set_ylim(bottom=0)


@dataclass(frozen=True)
class ByName:
    """Stacked bars with a name each, the first on top."""

    title: str
    unit: str
    names: Sequence[str]
    series: Mapping[str, Sequence[float]]

    def shortened(self) -> ByName:
        """The first of its bars, when there are too many."""
        if len(self.names) <= MOST_BARS:
            return self
        title = f"{self.title} (the first {MOST_BARS} of {len(self.names):,})"
        return replace(self, title=title, names=self.names[:MOST_BARS],
                       series={name: values[:MOST_BARS] for name, values in self.series.items()})  # fmt: skip

    def draw(self, axes: Axes) -> None:
        shown = [name if len(name) <= 40 else name[:39] + "…" for name in self.names]
        below = [0.0] * len(shown)
        for label, values in self.series.items():
            axes.barh(range(len(shown)), values, left=below, label=label)
            below = [low + value for low, value in zip(below, values, strict=True)]
        axes.set_yticks(range(len(shown)), shown)
        axes.invert_yaxis()
        axes.set_xlabel(self.unit)


Chart = OverTime | ByName


def add_plot(parser: argparse.ArgumentParser) -> None:
    """The flag of a job that can draw."""
    parser.add_argument(
        "--plot", default="", metavar="FILE", help="draw it, too: a .png, or an .html that needs nothing else"
    )


def check(path: str) -> None:
    """Raises StoreReadError when a plot cannot be made, before there is any work."""
    if not path:
        return
    if Path(path).suffix not in ENDINGS:
        raise StoreReadError(f"--plot {path!r}: the name has to end in {' or '.join(ENDINGS)}")
    if not Path(path).parent.is_dir():
        raise StoreReadError(f"--plot {path!r}: there is no folder {str(Path(path).parent)!r}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise StoreReadError("--plot needs matplotlib: pip install 'jetbroker[plot]'") from None


def save(path: str, title: str, charts: Sequence[Chart]) -> None:
    """One picture of these charts, one below the other; nothing without a path. Raises StoreReadError."""
    if not path:
        return
    charts = [chart.shortened() for chart in charts]
    if path.endswith(".png"):
        content = _image(charts, title, "png")
    else:
        parts = (f"<figure>{_inline(_image([chart], '', 'svg'))}</figure>\n{_table(chart)}" for chart in charts)
        content = PAGE.format(title=html.escape(title), charts="\n".join(parts)).encode()
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise StoreReadError(f"--plot {path!r}: {error.strerror}") from None


def most(series: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """The largest MOST_SERIES of them, and the sum of the others."""
    ordered = sorted(series, key=lambda name: -sum(series[name]))
    found = {name: list(series[name]) for name in sorted(ordered[:MOST_SERIES])}
    if others := ordered[MOST_SERIES:]:
        found[REST] = [sum(values) for values in zip(*(series[name] for name in others), strict=True)]
    return found


def _image(charts: Sequence[Chart], title: str, form: str) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks is a box
        figure = Figure(figsize=(INCHES[0], INCHES[1] * max(len(charts), 1)), dpi=DPI, layout="constrained")
        figure.suptitle(title)
        for chart, axes in zip(charts, figure.subplots(len(charts), squeeze=False)[:, 0], strict=True):
            axes.set_title(chart.title)
            if chart.names:
                chart.draw(axes)
            else:
                axes.text(0.5, 0.5, "there is nothing to show", ha="center", transform=axes.transAxes)
            if len(chart.series) > 1 and chart.names:
                axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        image = io.BytesIO()
        figure.savefig(image, format=form, metadata={"Date": None} if form == "svg" else None)
    return image.getvalue()


def _inline(image: bytes) -> str:
    """An SVG without what only a file of its own has."""
    return image[image.index(b"<svg") :].decode()


def _table(chart: Chart) -> str:
    """Its numbers, for those who want to know them exactly."""
    head = "".join(f"<th>{html.escape(text)}</th>" for text in ("", *chart.series))
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td>{''.join(f'<td>{_number(value)}</td>' for value in values)}</tr>\n"
        for name, *values in zip(chart.names, *chart.series.values(), strict=True)
    )
    return f"<details><summary>{html.escape(chart.unit)}</summary><table><tr>{head}</tr>\n{rows}</table></details>"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def _moment(seconds: int) -> datetime:
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(seconds, UTC)
    return datetime.fromtimestamp(0, UTC)
