"""The house rules: who may import whom, how large things may get, words that must not stay behind."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from benchmarks import structure

ROOT = Path(__file__).resolve().parent.parent
TABLE_HEAD = "| room | what it is for | may import |"
ROW = re.compile(r"^\| (?P<rooms>`[^|]+) \| (?P<purpose>[^|]+) \| (?P<imports>[^|]+) \|$", re.MULTILINE)


def rooms_of(text: str) -> dict[str, set[str]]:
    """The table in docs/ARCHITECTURE.md: room -> what it may import, with dots ("jetstream.models").

    "base" stands for the first row. "wire.subjects" allows that one module. A room may always import itself.
    """
    start = text.index(TABLE_HEAD)
    rooms: dict[str, set[str]] = {}
    base: set[str] = set()
    for row in ROW.finditer(text[start : text.index("\n\n", start)]):
        names = [re.sub(r"/$|\.\w+$", "", name).replace("/", ".") for name in re.findall(r"`([^`]+)`", row["rooms"])]
        base = base or set(names)
        imports = {name.strip() for name in row["imports"].split(",")}
        rooms |= {name: imports - {"base"} | (base if "base" in imports else set()) for name in names}
    return rooms


RULES = rooms_of((ROOT / "docs" / "ARCHITECTURE.md").read_text())
PACKAGE_CONSTANT = re.compile(r"jetbroker\.(__\w+__|[A-Z][A-Z_]*)")

SOURCE_LINES = 800
TEST_LINES = 1000
FUNCTION_LINES = 70
MOST_FIELDS = 59
MOST_METHODS = 105
TYPES_ONLY = re.compile(r"^if TYPE_CHECKING:\n(?:    .*\n|\n)+", re.MULTILINE)
# spelled backwards, so that this file passes its own test
WORDS = [word[::-1] for word in ("ODOT", "EMXIF", "/krow/", "derahs/..")]
FORBIDDEN = re.compile("|".join(rf"(?<!\w){re.escape(word)}" for word in WORDS))
CHECKED_SUFFIXES = {".py", ".pyx", ".pxd", ".pyi", ".c", ".h", ".md", ".toml", ".conf", ".sh", ".cfg", ".yml", ""}


def tracked_files() -> list[Path]:
    """Files under version control, or, in an unpacked sdist, every file of the project's folders."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode == 0:
        return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]
    folders = (
        "jetbroker",
        "spark_jobs",
        "pyspark_jetstream",
        "benchmarks",
        "compatibility",
        "tests",
        "configs",
        "docker",
        "docs",
        "examples",
    )
    return [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]


def sources(*suffixes: str) -> list[Path]:
    return [path for path in tracked_files() if path.suffix in suffixes]


def within(module: str, rooms: Iterable[str]) -> str:
    """The innermost of the rooms that a module is in: 'jetbroker.wire.parser' -> 'wire'; "": in none."""
    inside = module.removeprefix("jetbroker.")
    return max((room for room in rooms if inside == room or inside.startswith(f"{room}.")), key=len, default="")


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def python_imports(text: str, module: str, is_package: bool) -> set[str]:
    """Absolute names of what a Python module imports, relative imports resolved; `from a import b` gives a.b."""
    found: set[str] = set()
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *([base] if base else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


CYTHON_FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n#]+)", re.MULTILINE)
CYTHON_IMPORT = re.compile(r"^[ \t]*c?import[ \t]+([\w., \t]+)", re.MULTILINE)


def cython_imports(text: str) -> set[str]:
    """The same for .pyx and .pxd: import and cimport alike."""
    found: set[str] = set()
    for base, names in CYTHON_FROM.findall(text):
        found |= {f"{base}.{name.split()[0]}" for name in names.strip("()").split(",") if name.strip()}
    for names in CYTHON_IMPORT.findall(text):
        found |= {name.split()[0] for name in names.split(",") if name.strip()}
    return found


def forbidden_imports(module: str, imports: set[str]) -> list[str]:
    """Those imports of jetbroker's own rooms that `module` may not have."""
    room = "__init__" if module == "jetbroker" else within(module, RULES)
    allowed = RULES[room] | {room} if room else set()
    own = {name for name in imports if name.split(".")[0] in ("jetbroker", "spark_jobs", "pyspark_jetstream")}
    return sorted(name for name in own if not PACKAGE_CONSTANT.fullmatch(name) and not within(name, allowed))


def python_function_lengths(text: str) -> list[tuple[str, int]]:
    return [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in statements(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All of them, however deep; expressions, which are most of a tree, are left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from statements(child)


CYTHON_DEF = re.compile(
    r"^(?P<indent>[ \t]*)(?:async\s+)?(?:def|cdef|cpdef)\b(?!\s+(?:class|enum|struct|extern))(?P<rest>.*)$"
)


def cython_function_lengths(text: str) -> list[tuple[str, int]]:
    """A function ends before the next line, blank ones aside, that is indented no deeper than its own first."""
    lines = text.split("\n")
    found = []
    for start, line in enumerate(lines):
        match = CYTHON_DEF.match(line)
        name = re.search(r"(\w+)\s*\(", match["rest"]) if match else None
        if match is None or name is None:
            continue
        head = start
        while head < len(lines) - 1 and not lines[head].split("#")[0].rstrip().endswith(":"):
            head += 1
        indent, last = len(match["indent"]), head
        for at in range(head + 1, len(lines)):
            if not lines[at].strip():
                continue
            if len(lines[at]) - len(lines[at].lstrip()) <= indent:
                break
            last = at
        found.append((name[1], last - start + 1))
    return found


def too_long(lengths: list[tuple[str, int]]) -> list[str]:
    return [f"{name}: {lines} lines" for name, lines in lengths if lines > FUNCTION_LINES]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_rooms_import_in_one_direction() -> None:
    wrong = []
    for path in sources(".py", ".pyx", ".pxd"):
        if path.relative_to(ROOT).parts[0] not in ("jetbroker", "spark_jobs", "pyspark_jetstream"):
            continue
        module, text = module_of(path), path.read_text()
        is_python = path.suffix == ".py"
        imports = python_imports(text, module, path.stem == "__init__") if is_python else cython_imports(text)
        wrong += [f"{relative(path)} imports {name}" for name in forbidden_imports(module, imports)]
    assert not wrong, "\n".join(wrong)


def needs(path: Path) -> set[str]:
    """What has to be there for a file to work: all its imports, late ones too, but those that only name types."""
    text, module = path.read_text(), module_of(path)
    if path.suffix != ".py":
        return cython_imports(text)
    return python_imports(TYPES_ONLY.sub("if TYPE_CHECKING:\n    pass\n", text), module, path.stem == "__init__")


def circles(imports: dict[str, set[str]]) -> list[str]:
    """Modules that lead back to themselves, each with those on the way."""
    found: list[str] = []
    done: set[str] = set()

    def follow(module: str, way: list[str]) -> None:
        if module in way:
            found.append(" -> ".join([*way[way.index(module) :], module]))
        elif module not in done:
            for name in sorted(imports[module]):
                follow(name, [*way, module])
            done.add(module)

    for module in sorted(imports):
        follow(module, [])
    return found


def test_modules_import_in_one_direction() -> None:
    named: dict[str, set[str]] = {}
    for path in sources(".py", ".pyx", ".pxd"):
        if path.is_relative_to(ROOT / "jetbroker"):
            named.setdefault(module_of(path), set()).update(needs(path))
    imports = {
        module: {name for each in names for name in (each, each.rpartition(".")[0]) if name in named} - {module}
        for module, names in named.items()
    }
    rooms = {name for name in imports if any(other.startswith(f"{name}.") for other in imports)}
    found = circles({module: names - rooms for module, names in imports.items()})
    assert not found, "\n".join(found)


def test_the_check_of_circles_can_fail() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a -> b -> c -> a"]


def test_classes_stay_small() -> None:
    """The most that a class has, with all that it inherits: these numbers only ever go down."""
    known = structure.shapes(ROOT / "jetbroker")
    sizes = {name: structure.whole(shape, known) for name, shape in known.items()}
    fields = {name: len(found) for name, (found, _) in sizes.items() if len(found) > MOST_FIELDS}
    methods = {name: len(found) for name, (_, found) in sizes.items() if len(found) > MOST_METHODS}
    assert (fields, methods) == ({}, {})
    assert max(len(found) for found, _ in sizes.values()) == MOST_FIELDS
    assert max(len(found) for _, found in sizes.values()) == MOST_METHODS


def test_fields_and_methods_of_a_class_are_seen() -> None:
    header = "cdef class A(B):\n    cdef int x, y   # two\n    cdef readonly dict z\n    cdef int go(self) except -1\n"
    source = (
        "class B:\n    w: int\n\n    def __init__(self) -> None:\n        self.v = 1\n\n    async def run(self): ...\n"
    )
    known = {shape.name: shape for text in (header, source) for shape in structure.classes_of(text, "")}
    assert structure.whole(known["A"], known) == (set("xyzwv"), {"go", "__init__", "run"})


def test_what_was_written_several_times_stands_once() -> None:
    found = structure.copies(ROOT / "jetbroker")
    assert {rule: files for rule, files in found.items() if len(files) > 1} == {}


def test_copies_of_a_rule_are_seen(tmp_path: Path) -> None:
    for name in ("a.py", "b.pyx"):
        (tmp_path / name).write_text("API_LEVEL = 4\n")
    assert structure.copies(tmp_path)["the API level that is served"] == ["a.py", "b.pyx"]


def test_files_stay_small() -> None:
    wrong = []
    for path in sources(".py", ".pyx", ".pxd", ".pyi", ".c", ".h"):
        limit = TEST_LINES if path.relative_to(ROOT).parts[0] == "tests" else SOURCE_LINES
        lines = path.read_text().count("\n")
        if lines > limit:
            wrong.append(f"{relative(path)}: {lines} lines, at most {limit}")
    assert not wrong, "\n".join(wrong)


def test_functions_stay_small() -> None:
    wrong = []
    for path in sources(".py", ".pyx"):
        text = path.read_text()
        lengths = python_function_lengths(text) if path.suffix == ".py" else cython_function_lengths(text)
        wrong += [f"{relative(path)}: {line}" for line in too_long(lengths)]
    assert not wrong, "\n".join(wrong)


def test_no_forbidden_words() -> None:
    wrong = []
    for path in tracked_files():
        if path.suffix not in CHECKED_SUFFIXES or path.name == "LICENSE":
            continue
        for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
            if FORBIDDEN.search(line):
                wrong.append(f"{relative(path)}:{number}: {line.strip()}")
    assert not wrong, "\n".join(wrong)


OWN_FLUSH = re.compile(r"(?:await |\()[\w.\[\]]+\.flush\(")
MAY_FLUSH = {"tests/support/clients.py", "tests/testing/test_pytest_plugin.py"}  # settle itself; a program of users


def test_tests_wait_for_a_server_by_settle() -> None:
    tests = [path for path in tracked_files() if path.suffix == ".py" and relative(path).startswith("tests/")]
    assert {relative(path) for path in tests if OWN_FLUSH.search(path.read_text())} == MAY_FLUSH


@pytest.mark.parametrize("start", ["await nc", "await users[name]", "gather(*(one"])
def test_the_check_of_flushes_can_fail(start: str) -> None:
    assert OWN_FLUSH.search(f"{start}.flush()")


SIGNATURE = re.compile(
    r"^(?P<indent>[ \t]*)cp?def[ \t]+(?:(?:inline|public|api)[ \t]+)*"
    r"(?P<type>[\w. ]+?[ \t]*\**)[ \t]*\b(?P<name>\w+)\((?P<arguments>[^()]*(?:\([^()]*\)[^()]*)*)\)[ \t]*"
    r"except[ \t]+(?P<value>-?\w+)(?P<rest>[^\n]*)\n(?P<body>(?:[ \t]*\n|(?P=indent)[ \t]+[^\n]*\n)*)",
    re.MULTILINE,
)
WIDE = re.compile(r"(?:const )?(?:u?int(?:32|64)_t|s?size_t|Py_ssize_t|(?:unsigned )?(?:long|double)(?: long)?)")


def ambiguous_errors(text: str) -> list[str]:
    """Functions that may return the value which stands for an error: their caller would find no exception there.

    A number of 32 or 64 bits may be anything, so it needs `except?`; an int that returns the value in so many words.
    """
    found = []
    for match in SIGNATURE.finditer(text):
        returns = re.findall(r"\breturn[ \t]+([^\n#]+)", match["body"])
        own_value = any(match["value"] in re.split(r"[^\w-]+", value) for value in returns if "(" not in value)
        if WIDE.fullmatch(match["type"].strip()) or own_value:
            found.append(match["name"])
    return found


def test_no_function_returns_the_value_of_an_error() -> None:
    wrong = {relative(path): ambiguous_errors(path.read_text()) for path in sources(".pyx", ".pxd")}
    assert {path: names for path, names in wrong.items() if names} == {}


def test_the_check_of_error_values_can_fail() -> None:
    assert ambiguous_errors("    cdef uint64_t append(self, Py_ssize_t n) except 0\n") == ["append"]
    assert ambiguous_errors("cdef Py_ssize_t f(int a,\n                  int b) except -1:\n    return a\n") == ["f"]
    assert ambiguous_errors("cdef int f() except -1:\n    if x:\n        return -1\n    return 0\n") == ["f"]
    assert ambiguous_errors("    cpdef uint64_t first(self) except? 0\n    cdef char* p(self) except NULL\n") == []


def test_every_room_says_what_it_is_for() -> None:
    for folder in {path.parent for path in sources(".py", ".pyx") if path.is_relative_to(ROOT / "jetbroker")}:
        said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        assert len(said) > 20, relative(folder)


def test_every_module_is_in_a_room_of_the_table() -> None:
    modules = [module_of(path) for path in sources(".py", ".pyx") if path.is_relative_to(ROOT / "jetbroker")]
    inits = {module_of(path) for path in sources(".py") if path.stem == "__init__"}
    assert [module for module in modules if not within(module, RULES) and module not in inits] == []


def test_every_compiled_module_has_a_public_face_or_a_header() -> None:
    alone = [
        relative(path)
        for path in sources(".pyx")
        if not path.with_suffix(".pyi").exists() and not path.with_suffix(".pxd").exists()
    ]
    assert alone == []


@pytest.mark.parametrize(
    ("module", "text", "expected"),
    [
        (
            "jetbroker.store.log.segment",
            "from jetbroker.jetstream.streams import stream",
            ["jetbroker.jetstream.streams.stream"],
        ),
        ("jetbroker.store.log.segment", "from jetbroker.wire import parser, subjects", ["jetbroker.wire.parser"]),
        ("jetbroker.store.log.segment", "from jetbroker.wire.subjects import matches", []),
        ("jetbroker.wire.headers", "from ..routing.router import Router", ["jetbroker.routing.router.Router"]),
        ("jetbroker.limits", "import jetbroker.wire", ["jetbroker.wire"]),
        (
            "jetbroker.routing.router",
            "def f():\n    import jetbroker.connections.client",
            ["jetbroker.connections.client"],
        ),
        ("spark_jobs.source", "from jetbroker.daemon.broker import Broker", ["jetbroker.daemon.broker.Broker"]),
    ],
)
def test_the_import_check_can_fail(module: str, text: str, expected: list[str]) -> None:
    assert forbidden_imports(module, python_imports(text, module, is_package=False)) == expected
    if "from .." not in text:
        assert forbidden_imports(module, cython_imports(text.replace("import ", "cimport ", 1))) == expected


def test_cimports_over_several_lines_are_seen() -> None:
    text = "from jetbroker.connections.client cimport (\n    Client,\n    Output as Out,\n)\n"
    assert cython_imports(text) == {"jetbroker.connections.client.Client", "jetbroker.connections.client.Output"}


def test_the_length_checks_can_fail() -> None:
    body = "\n".join(["    x = 1"] * FUNCTION_LINES)
    assert too_long(python_function_lengths(f"def long():\n{body}\n")) == [f"long: {FUNCTION_LINES + 1} lines"]
    signature = "cdef int long(\n    int a,\n) except -1:"
    cython = f"{signature}\n{body}\n\ncdef int short():\n    return 1\n"
    assert cython_function_lengths(cython) == [("long", FUNCTION_LINES + 3), ("short", 2)]
    assert too_long(cython_function_lengths(cython)) == [f"long: {FUNCTION_LINES + 3} lines"]


@pytest.mark.parametrize("word", WORDS)
def test_the_word_check_can_fail(word: str) -> None:
    assert FORBIDDEN.search(f"see {word}x")
    assert not FORBIDDEN.search("a method to do things, its workings shared")
