"""How Sphinx makes a site of the pages: `make docs`. The pages stay what a reader of the repository sees."""

import re
import shutil
from pathlib import Path
from typing import Any

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Punctuation, String, Text

ROOT = Path(__file__).resolve().parent.parent

project = "jetbroker"
copyright = "the authors of jetbroker, Apache-2.0"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "examples/README.md", "docs/**.md", "benchmarks/RESULTS.md"]
exclude_patterns = [".*", "build", "dist", "data", "jetbroker", "tests", "fuzz", "compatibility", "spark_jobs"]

myst_heading_anchors = 4
myst_links_external_new_tab = False
html_theme = "furo"
html_title = "jetbroker"
html_static_path: list[str] = []
html_copy_source = False
html_show_sphinx = False
html_use_index = False
html_permalinks_icon = "#"

INDEX = ROOT / "docs" / "index.md"
SECTION = re.compile(r"^## (.+)\n((?:(?!## ).*\n)*)", re.MULTILINE)
LISTED = re.compile(r"^- \[[^]]+\]\(([^)#]+)\.md\)", re.MULTILINE)
# A folder of the repository is no page: its link stays a name.
FOLDER_LINK = re.compile(r"(?<!!)\[([^]\[]+)\]\(((?!\w+:)[^)#\s]+)\)")


class Configuration(RegexLexer):  # type: ignore[misc]
    """Colours for blocks of `conf`."""

    name = "NATS configuration"
    tokens = {  # noqa: RUF012
        "root": [
            (r"#.*$", Comment),
            (r'"[^"\n]*"|\'[^\'\n]*\'', String),
            (r"\$\w+", Name.Variable),
            (r"[\w./-]+(?=\s*[:={])", Name.Attribute),
            (r"\b(true|false|enabled|disabled)\b", Keyword),
            (r"[{}\[\],:=]", Punctuation),
            (r"\s+|.", Text),
        ]
    }


def navigation() -> str:
    """The sections of docs/index.md as trees of pages, which the site shows at its side."""
    sections = [
        (title, [_from_root(page) for page in LISTED.findall(text)])
        for title, text in SECTION.findall(INDEX.read_text())
    ]
    return _tree("Documentation", ["All pages <docs/index>"]) + "".join(
        _tree(title, found) for title, found in sections if found
    )


def _tree(title: str, entries: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *entries, "```", ""])


def _from_root(page: str) -> str:
    return (INDEX.parent / page).resolve().relative_to(ROOT).as_posix()


def without_folder_links(text: str, folder: Path) -> str:
    """The text of a page whose links to folders have become their names."""
    return FOLDER_LINK.sub(lambda link: f"`{link[1]}`" if (folder / link[2]).is_dir() else link[0], text)


def read(app: Any, name: str, source: list[str]) -> None:
    page = (ROOT / name).parent
    source[0] = without_folder_links(source[0], page) + (navigation() if name == root_doc else "")


def first_page(app: Any, error: Exception | None) -> None:
    """Who opens the folder sees the README."""
    if error is None:
        shutil.copy(Path(app.outdir) / f"{root_doc}.html", Path(app.outdir) / "index.html")


def setup(app: Any) -> None:
    app.add_lexer("conf", Configuration)
    app.connect("source-read", read)
    app.connect("build-finished", first_page)
