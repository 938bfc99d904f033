"""Compiles every .pyx of jetbroker and of the folders that JETBROKER_WITH names; the rest stands in pyproject.toml."""

import gc
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

BUILD = Path(".build/cython")
BUILD_ID = Path("jetbroker/BUILD")  # read by jetbroker/program.py
SHARED = "jetbroker._cython"  # what Cython would put into every module that uses it
SHARED_C = BUILD / "jetbroker/_cython.c"
# Cython's output relies on type punning and wrap-around arithmetic; gcc's warnings about it help nobody. A build with
# symbols for a debugger takes half as long again.
FLAGS = ["-g0", "-fno-strict-aliasing", "-fwrapv", "-w"]
TRACED = "JETBROKER_TRACED" in os.environ  # functions tell that they are called, see benchmarks/crossed.py
# Commands that only read what the project says of itself; pip runs two of them before it builds a wheel.
DESCRIBING = frozenset(("dist_info", "egg_info", "sdist"))
# What runs for each message. -O3 would save a hundredth of its instructions, and take a quarter longer to compile.
HOT = re.compile(
    r"jetbroker/(wire|tables)/|jetbroker/tick|/connections/(client|halves|tls_layer)|/routing/(router|sublist)"
    r"|/publish/(ingest|pub_acks)|/consumers/(consumer|core|tracker|cursor|pull|push)|/backup/archive/"
    r"|/store/(compression|format|offline)/|/log/(filelog|memlog|segment|segmented)\."
)
# Elsewhere the whole of -O2 takes twice as long to compile, for nothing that shows.
ELSEWHERE = ["-O1", "-finline-small-functions", "-findirect-inlining", "-fpartial-inlining"]
DIRECTIVES = {
    "language_level": 3,
    "profile": TRACED,
    "auto_pickle": False,  # nobody pickles these objects, and the code for it would be a quarter of what is compiled
    "optimize.unpack_method_calls": False,  # a tenth of it, and no faster
    "emit_code_comments": False,
}


def extensions() -> list[Extension]:
    """All modules, the largest first: none of them is compiled alone in the end."""
    folders = ["jetbroker", *os.environ.get("JETBROKER_WITH", "").split()]
    found = [source for folder in folders for source in Path(folder).glob("**/*.pyx")]
    sources = sorted(found, key=lambda source: source.stat().st_size, reverse=True)
    modules = [
        Extension(".".join(source.with_suffix("").parts), [str(source)], extra_compile_args=flags(source))
        for source in sources
    ]
    return [Extension(SHARED, [str(SHARED_C)], extra_compile_args=flags(SHARED_C)), *modules]


def flags(source: Path) -> list[str]:
    """What the compiler is told."""
    if TRACED:
        return ["-O0", *FLAGS]
    return [*(["-O2"] if HOT.search(source.as_posix()) else ELSEWHERE), *FLAGS]


def write_shared() -> None:
    """Does what is written once and does not depend on our sources."""
    if not SHARED_C.exists():
        SHARED_C.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "cython", f"--generate-shared={SHARED_C}"], check=True)


def write_build_id() -> None:
    """The commit that is built. Where there is no checkout, as in an sdist, what it came with stays."""
    if not Path(".git").exists() or not shutil.which("git"):
        return
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    described = subprocess.run(command, capture_output=True, text=True)
    if described.returncode == 0:
        BUILD_ID.write_text(described.stdout)


def main() -> None:
    write_build_id()
    jobs = os.cpu_count() or 1
    # The Makefile installs the package as editable without compiling, then compiles in place only what changed:
    # an editable install would compile everything each time.
    modules = []
    if "JETBROKER_LINK_ONLY" not in os.environ and not DESCRIBING.intersection(sys.argv):
        write_shared()
        gc.set_threshold(1_000_000, 20, 1)  # Cython's trees are large, and collecting is a third of its time
        modules = cythonize(
            extensions(),
            build_dir=str(BUILD),
            nthreads=jobs,
            compiler_directives=DIRECTIVES,
            shared_utility_qualified_name=SHARED,
        )
    setup(ext_modules=modules, options={"build_ext": {"parallel": jobs}})


if __name__ == "__main__":
    main()
