"""Checks the links of the pages: files of the repository, and headings. It asks nobody.

python -m tools.links               # README, docs, examples, the changelog
python -m tools.links --site FOLDER # a site that was built: its links, and that it loads nothing from elsewhere
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent

CODE_BLOCK = re.compile(r"^( *)(`{3,}).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
DEFINED = re.compile(r"^ {0,3}\[[^]\n]+\]:\s*(\S+)", re.MULTILINE)
IN_HTML = re.compile(r"<(?:img|a|source)\b[^>]*?\b(?:src|href|srcset)=\"([^\"\s]+)", re.IGNORECASE)
HEADING = re.compile(r"^#{1,6} (.+?)(?: #+)?$", re.MULTILINE)
ELSEWHERE = re.compile(r"^(?:https?:)?//", re.IGNORECASE)
IN_STYLES = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)", re.IGNORECASE)
# What a browser fetches by itself, and where its address stands.
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
}
LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "prefetch", "preconnect", "dns-prefetch", "manifest"}


def pages() -> list[Path]:
    """Every page that people read."""
    single = [ROOT / name for name in ("README.md", "CHANGELOG.md", "examples/README.md", "benchmarks/RESULTS.md")]
    return sorted([*single, *(ROOT / "docs").rglob("*.md")])


def anchors(text: str) -> set[str]:
    """The names that headings get: lower case, blanks as dashes, other punctuation left out, a number when taken."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in HEADING.findall(CODE_BLOCK.sub("", text)):
        shown = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def links(text: str) -> Iterator[str]:
    """Where the links and pictures of a page lead."""
    plain = CODE.sub("", CODE_BLOCK.sub("", text))
    for kind in (LINK, DEFINED, IN_HTML):
        yield from kind.findall(plain)


def broken_links(page: Path) -> list[str]:
    """Those that lead to no file, or to no heading of a page."""
    wrong = []
    for link in links(page.read_text()):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        inside = target.is_relative_to(ROOT) or target.is_relative_to(page.parent)
        if not inside or not target.exists() or (parts.fragment and not _has(target, parts.fragment)):
            wrong.append(link)
    return wrong


def _has(page: Path, anchor: str) -> bool:
    return page.suffix == ".md" and anchor in anchors(page.read_text())


# --- a site ---


class _Page(HTMLParser):
    """What a page of a site loads, where it leads, and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.leads.append(given["href"])
        elif tag == "link" and LOADED_LINKS.intersection(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))
        elif tag in LOADED:
            self.loads += [given.get(LOADED[tag], ""), *(part.split()[0] for part in _sources(given.get("srcset", "")))]


def _sources(text: str) -> list[str]:
    return [part for part in text.split(",") if part.strip()]


def faults_of_site(folder: Path) -> list[str]:
    """What its pages and styles load from other hosts, and links that lead nowhere."""
    found = []
    read = {path: _Page(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    for path, page in read.items():
        name = path.relative_to(folder)
        styles = IN_STYLES.findall(path.read_text())
        found += [f"{name}: loads {url}" for url in (*page.loads, *styles) if ELSEWHERE.match(url)]
        for link in page.leads:
            parts = urlsplit(link)
            if not parts.scheme and not parts.netloc and not _leads(path, parts.path, parts.fragment, read):
                found.append(f"{name}: leads nowhere: {link}")
    for path in sorted([*folder.rglob("*.css"), *folder.rglob("*.svg")]):
        found += [f"{path.relative_to(folder)}: loads {url}" for url in IN_STYLES.findall(path.read_text())]
    return found


def _leads(path: Path, to: str, anchor: str, read: dict[Path, _Page]) -> bool:
    target = (path.parent / unquote(to)).resolve() if to else path.resolve()
    page = read.get(target)
    return target.exists() and (not anchor or page is None or unquote(anchor) in page.anchors)


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    if arguments[:1] == ["--site"]:
        faults = faults_of_site(Path(arguments[1]).resolve())
    else:
        faults = [f"{page.relative_to(ROOT)}: leads nowhere: {link}" for page in pages() for link in broken_links(page)]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
