"""Badges of the README, as pictures in docs/images: they ask no other host, and say what the code says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from jetbroker import NATS_VERSION, __version__

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "images"
CHARACTER, PADDING, HEIGHT = 6.6, 8, 20  # pixels


def badge(name: str, value: str, color: str) -> str:
    """A picture of two words beside each other."""
    left, right = (round(len(text) * CHARACTER + 2 * PADDING) for text in (name, value))
    name, value, width = escape(name), escape(value), left + right
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" role="img" aria-label="{name}: {value}">
<title>{name}: {value}</title>
<clipPath id="r"><rect width="{width}" height="{HEIGHT}" rx="3"/></clipPath>
<g clip-path="url(#r)">
<rect width="{left}" height="{HEIGHT}" fill="#555"/>
<rect x="{left}" width="{right}" height="{HEIGHT}" fill="{color}"/>
</g>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{left / 2}" y="14">{name}</text>
<text x="{left + right / 2}" y="14">{value}</text>
</g>
</svg>
"""


def badges() -> dict[Path, str]:
    """All of them: path and text."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    classified = [line.rpartition(" :: ")[2] for line in project["classifiers"]]
    pythons = sorted((name for name in classified if name.startswith("3.")), key=lambda name: int(name[2:]))
    status = next(line.rpartition(" - ")[2].lower() for line in project["classifiers"] if "Status" in line)
    shown = {
        "version": ("version", f"{__version__}, {status}", "#9f6f00"),
        "python": ("python", f"{pythons[0]} to {pythons[-1]}", "#2f6f9f"),
        "nats": ("behaves as nats-server", NATS_VERSION, "#1f7a4d"),
        "licence": ("licence", project["license"], "#2f6f9f"),
    }
    return {FOLDER / f"badge-{name}.svg": badge(*words) for name, words in shown.items()}
