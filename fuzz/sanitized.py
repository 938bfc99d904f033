"""A copy of the package whose compiled modules watch their memory, and commands that run in it.

    python -m fuzz.sanitized -m fuzz protocol --inputs 1000000

compiles what changed with AddressSanitizer and UndefinedBehaviorSanitizer into .build/sanitized and runs Python with
these arguments there. The first wrong access ends the run with a report. Needs gcc and its libasan. What ASAN_OPTIONS
and UBSAN_OPTIONS of the environment say goes before what is set here.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / ".build" / "sanitized"
PACKAGES = ("jetbroker", "fuzz")
SOURCES = (".py", ".pyx", ".pxd")
COMPILED = sysconfig.get_config_var("EXT_SUFFIX")  # read once: the first reading is not safe between threads
FLAGS = (
    *("-shared", "-fPIC", "-O1", "-g1", "-w", "-fno-omit-frame-pointer", "-fno-strict-aliasing", "-fwrapv"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    "-fno-sanitize=nonnull-attribute",  # to copy no bytes from nowhere is no wrong access
)
OPTIONS = {
    # Python keeps much until its very end; and an allocation that is refused has to be survived, not reported
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "PYTHONMALLOC": "malloc",  # Python's own pools would hide what is read behind an object
}


def copy_sources() -> None:
    """Bring the copy up to date; what is gone goes there, too."""
    copied = set()
    for package in PACKAGES:
        for source in (ROOT / package).rglob("*"):
            if source.suffix not in SOURCES:
                continue
            target = COPY / source.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            copied.add(target)
    for target in COPY.rglob("*"):
        if target.suffix in SOURCES and target not in copied:
            target.unlink()
            built(target).unlink(missing_ok=True)


def built(source: Path) -> Path:
    """The compiled module of a source."""
    return source.with_suffix(COMPILED)


@functools.cache
def named(path: Path) -> tuple[Path, ...]:
    """A source's own header, and those that it names."""
    modules = re.findall(r"^\s*from ([\w.]+) cimport", path.read_text(), re.MULTILINE)
    headers = [path.with_suffix(".pxd"), *(COPY / f"{module.replace('.', '/')}.pxd" for module in modules)]
    return tuple(header for header in headers if header.exists())


def used(source: Path) -> set[Path]:
    """A source with all headers that it uses, by way of others too."""
    found, waiting = {source}, [source]
    while waiting:
        for header in named(waiting.pop()):
            if header not in found:
                found.add(header)
                waiting.append(header)
    return found


def fingerprint(source: Path) -> str:
    """Of everything a compiled module was made from. Times would not do: a file may change while it is compiled."""
    parts = [path.read_bytes() for path in sorted(used(source))]
    return hashlib.sha256(b"\0".join([*parts, repr(FLAGS).encode()])).hexdigest()


def compile_stale(compiler: str) -> None:
    """Every module that was not made from its source and the headers it uses. Raises CalledProcessError when one is
    wrong."""

    def bring_up_to_date(source: Path) -> None:
        stamp, wanted = source.with_suffix(".built"), fingerprint(source)
        if built(source).exists() and stamp.exists() and stamp.read_text() == wanted:
            return
        compile_one(compiler, source)
        stamp.write_text(wanted)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(bring_up_to_date, sorted(COPY.rglob("*.pyx"))))


def compile_one(compiler: str, source: Path) -> None:
    """One module, where its source is. Raises CalledProcessError when it is wrong."""
    c_file = source.with_suffix(".c")
    module = ".".join(source.relative_to(COPY).with_suffix("").parts)
    print(f"compiling {module}", file=sys.stderr, flush=True)
    cython = [sys.executable, "-m", "cython", "-3", "--module-name", module, "-o", str(c_file), str(source)]
    subprocess.run(cython, cwd=COPY, check=True)
    include = sysconfig.get_paths()["include"]
    subprocess.run([compiler, *FLAGS, f"-I{include}", str(c_file), "-o", str(built(source))], check=True)
    c_file.unlink()


def library(compiler: str, name: str) -> str:
    """Where the compiler keeps a library."""
    return subprocess.run(
        [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()


def main() -> None:
    """Replaces this process by the one that was asked for."""
    compiler = os.environ.get("CC", "gcc")
    copy_sources()
    compile_stale(compiler)
    preload = " ".join(library(compiler, name) for name in ("libasan.so", "libubsan.so"))
    os.chdir(COPY)
    options = {
        name: f"{value}:{os.environ.get(name, '')}" if "=" in value else value for name, value in OPTIONS.items()
    }
    environment = {**os.environ, **options, "LD_PRELOAD": preload, "PYTHONPATH": str(COPY)}
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment)


if __name__ == "__main__":
    main()
