"""How the house is built, in numbers: `python -m benchmarks.structure [FOLDER]`.

For each room of the package its files and lines, the classes with the most fields and methods, and how often each of
some rules is written. A class counts with all that it inherits: who reads it has to know that, too. A rule is known by
a sign, a piece of text that each copy of its code has. FOLDER is another checkout to be counted.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "jetbroker"
LISTED = 10
SUFFIXES = (".py", ".pyx", ".pxd")

_CLASS = re.compile(r"(?:cdef |cpdef )?class (\w+)(?:\(([^)]*)\))?.*:")
_METHOD = re.compile(r"    (?:async )?(?:def|cdef|cpdef) (?:[^(=]*?[ *])?(\w+)\(")
_DECLARED = re.compile(
    r"    cdef (?:readonly |public )?(?!class |enum|struct|inline )[\w.\[\]:]+[ *]+([*\w, ]+?)\s*(?:#.*)?$"
)
_ANNOTATED = re.compile(r"    (\w+): (?!ClassVar)")
_ASSIGNED = re.compile(r"        +self\.(\w+)(?:: [^=]+)? = ")

# What was written several times once, by the sign of a copy.
RULES = {
    "a stored message's id is remembered": r"\bdedup\.remember\(",
    "a stored message's time to live begins": r"\bttls\.add\([\w.]*seq, expiry_ns\(max\(",
    "what a message adds to the uncommitted bytes": r"accepted(?:_bytes)? \+= (?!self\.republisher)\w*(?:size|len)\b",
    "how much of a roll-up can be undone": r"^cdef int MAX_UNDONE_\w+ = ",
    "texts are quoted as by strconv.Quote": r"^def _?quoted?\((?:text|raw): [\w |]+\) -> str:",
    "bytes are quoted as by Go's package time": r"^def (?:_quote_bytes|time_quoted)\(",
    "a duration is read": r"^_UNIT_SECONDS = |^c?p?def (?:int64_t )?parse_(?:go_)?duration\((?:bytes|const char).*:$",
    "a duration is printed": r"for unit, \w+ in \(\(\"?\w+\"?, (?:\"ns\"|1e-6)\)",
    "a size is printed": r"/ 1024\*\*|/= 1024$",
    "HTML in JSON is escaped": r"\\u003c",
    "the API level that is served": r"^API_LEVEL = ",
    "a required API level is judged": r"(?:<=|>) API_LEVEL\b",
}


@dataclass
class Shape:
    """A class: where it stands, its own fields and methods, and the names of its bases."""

    name: str
    file: str
    bases: list[str]
    fields: set[str] = field(default_factory=set)
    methods: set[str] = field(default_factory=set)


def classes_of(text: str, file: str) -> Iterator[Shape]:
    """Every class at the top of a source or header."""
    shape: Shape | None = None
    for line in text.splitlines():
        if line and not line[0].isspace():
            if line[0] in ")]}":
                continue  # the end of a head over several lines
            found = _CLASS.match(line)
            if shape is not None:
                yield shape
            shape = None
            if found:
                bases = [base.strip().rpartition(".")[2] for base in (found[2] or "").split(",") if "=" not in base]
                shape = Shape(found[1], file, [base for base in bases if base])
        elif shape is not None:
            _take(line, shape)
    if shape is not None:
        yield shape


def _take(line: str, shape: Shape) -> None:
    if method := _METHOD.match(line):
        shape.methods.add(method[1])
    elif declared := _DECLARED.match(line):
        shape.fields |= {name.strip(" *") for name in declared[1].split(",")}
    elif annotated := _ANNOTATED.match(line) or _ASSIGNED.match(line):
        shape.fields.add(annotated[1])


def shapes(folder: Path) -> dict[str, Shape]:
    """The classes below a folder, by name; a header and its source add to the same class."""
    found: dict[str, Shape] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix not in SUFFIXES:
            continue
        for shape in classes_of(path.read_text(), path.relative_to(folder.parent).as_posix()):
            known = found.setdefault(shape.name, shape)
            known.fields |= shape.fields
            known.methods |= shape.methods
            known.bases = known.bases or shape.bases
    return found


def whole(shape: Shape, known: dict[str, Shape]) -> tuple[set[str], set[str]]:
    """(fields, methods) of a class with all that it inherits."""
    fields, methods = set(shape.fields), set(shape.methods)
    for base in shape.bases:
        if base in known and base != shape.name:
            more = whole(known[base], known)
            fields |= more[0]
            methods |= more[1]
    return fields, methods


def rooms(folder: Path) -> dict[str, list[int]]:
    """Lines of each file, by room."""
    found: dict[str, list[int]] = defaultdict(list)
    for path in folder.rglob("*"):
        if path.suffix in SUFFIXES:
            room = path.parent.relative_to(folder.parent).as_posix()
            found[room].append(len(path.read_text().splitlines()))
    return found


def copies(folder: Path) -> dict[str, list[str]]:
    """The files below a folder in which each of the rules is written, once for each copy."""
    found: dict[str, list[str]] = {rule: [] for rule in RULES}
    for path in sorted(folder.rglob("*")):
        if path.suffix in SUFFIXES:
            text, name = path.read_text(), path.relative_to(folder).as_posix()
            for rule, sign in RULES.items():
                found[rule] += [name] * len(re.findall(sign, text, re.MULTILINE))
    return found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT, help="a checkout (default: this one)")
    package = parser.parse_args().folder / PACKAGE
    print("| room | files | lines |\n|---|---|---|")
    for room, lines in sorted(rooms(package).items()):
        print(f"| `{room}/` | {len(lines)} | {sum(lines):,} |")
    known = shapes(package)
    sizes = {name: whole(shape, known) for name, shape in known.items()}
    print("\n| class, with what it inherits | fields | methods |\n|---|---|---|")
    for name in sorted(sizes, key=lambda each: -sum(map(len, sizes[each])))[:LISTED]:
        print(f"| `{name}` ({known[name].file}) | {len(sizes[name][0])} | {len(sizes[name][1])} |")
    print("\n| rule | copies | where |\n|---|---|---|")
    for rule, files in copies(package).items():
        print(f"| {rule} | {len(files)} | {', '.join(f'`{file}`' for file in files)} |")


if __name__ == "__main__":
    main()
