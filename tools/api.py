"""The Python interface, from the source: signatures and docstrings of what users import."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tools.markdown import WRITTEN

ROOT = Path(__file__).resolve().parent.parent

Function = ast.FunctionDef | ast.AsyncFunctionDef
Named = Function | ast.ClassDef

FIXTURES = (
    "nats_broker_config",
    "nats_client_options",
    "nats_broker_session",
    "nats_broker",
    "_client",
    "jetstream",
)
_FIXTURE_NAMES = {"_client": "nats_client"}

# A title, what stands below it, the file, what is described.
PARTS = (
    ("`jetbroker`", "Streams as tables: [TABLES.md](../TABLES.md).", "jetbroker/tables/scanning.py", ("scan",)),
    (
        "`jetbroker.testing`",
        "Brokers for tests: [TESTING.md](../TESTING.md).",
        "jetbroker/testing/in_process.py",
        ("embedded", "EmbeddedBroker"),
    ),
    ("", "", "jetbroker/testing/server.py", ("Server",)),
    ("", "", "jetbroker/testing/places.py", ("ServerError",)),
    ("Fixtures of pytest", "pytest finds them by itself.", "jetbroker/testing/pytest_plugin.py", FIXTURES),
    (
        "`spark_jobs.session`",
        "A session for the Spark source: [SPARK.md](../SPARK.md).",
        "spark_jobs/session.py",
        ("configure", "local_session"),
    ),
    (
        "Errors",
        "All of them are a `JetbrokerError`. They say in one sentence what to do.",
        "jetbroker/errors.py",
        ("JetbrokerError", "ConfigError", "StorageError", "StoreReadError", "StoreVersionError"),
    ),
)


def api_page() -> str:
    """docs/reference/API.md"""
    parts = [
        f"""# Python

This page describes what Python programs import. {WRITTEN} Everything else in the package may change with any release.

```python
import jetbroker
from jetbroker.testing import embedded
```
"""
    ]
    for title, text, file, names in PARTS:
        if title:
            parts.append(f"## {title}\n\n{text}\n")
        tree = ast.parse((ROOT / file).read_text())
        found = {node.name: node for node in tree.body if isinstance(node, Named)}
        if names is FIXTURES:
            parts += [f"- `{_FIXTURE_NAMES.get(name, name)}`: {docstring(found[name])}" for name in names] + [""]
        else:
            parts += (line for name in names for line in described(found[name]))
    return "\n".join(parts)


def described(node: Named) -> Iterator[str]:
    """A function, or a class with its public methods."""
    yield f"### `{node.name}`\n"
    if not isinstance(node, ast.ClassDef):
        yield f"```text\n{signature(node)}\n```\n\n{docstring(node)}\n"
        return
    methods = {one.name: one for one in node.body if isinstance(one, Function)}
    if "__init__" in methods:
        yield f"```text\n{signature(methods['__init__'], node.name)}\n```\n"
    yield f"{docstring(node)}\n"
    public = [one for name, one in methods.items() if not name.startswith("_")]
    for one in public:
        plain = any(ast.unparse(each) == "property" for each in one.decorator_list)
        shown = f".{one.name}" if plain else f".{call(one)}"
        yield f"- `{shown}`: {' '.join(docstring(one).split())}"
    if public:
        yield ""


def call(node: Function) -> str:
    """`name(arguments)`, without types."""
    shown = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if one.arg != "self"]
    return f"{node.name}({', '.join(shown)})"


def signature(node: Function, name: str = "") -> str:
    """A line for each argument when there are many."""
    args = ast.arguments(
        node.args.posonlyargs,
        [one for one in node.args.args if one.arg != "self"],
        node.args.vararg,
        node.args.kwonlyargs,
        node.args.kw_defaults,
        node.args.kwarg,
        node.args.defaults,
    )
    text = ast.unparse(args)
    result = f" -> {ast.unparse(node.returns).strip(chr(39))}" if node.returns and not name else ""
    line = f"{name or node.name}({text}){result}"
    if len(line) <= 110:
        return line
    return f"{name or node.name}(\n    " + ",\n    ".join(_split(text)) + f",\n){result}"


def _split(text: str) -> list[str]:
    """At the commas between arguments."""
    found, depth = [""], 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and not depth:
            found.append("")
        else:
            found[-1] += char
    return [one.strip() for one in found]


def docstring(node: Named) -> str:
    """In Markdown: `Args:` as a list, names of classes in backquotes, paragraphs on one line each."""
    text = re.sub(r":(?:class|func|meth):`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", ast.get_docstring(node) or "")
    found = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("Args:"):
            entries = re.findall(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", paragraph, re.MULTILINE)
            found.append("\n".join(f"- `{name}`: {' '.join(meaning.split())}" for name, meaning in entries))
        elif paragraph.startswith("    "):
            found.append(f"```python\n{paragraph}\n```")
        else:
            found.append(" ".join(paragraph.split()))
    return "\n\n".join(found)
