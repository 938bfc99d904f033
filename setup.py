"""Compiles every jetbroker/**/*.pyx; everything else stands in pyproject.toml."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup


def extensions() -> list[Extension]:
    return [
        Extension(
            ".".join(source.with_suffix("").parts),
            [str(source)],
            # Cython's output relies on type punning and wrap-around arithmetic; gcc's warnings about it help nobody
            extra_compile_args=["-O3", "-fno-strict-aliasing", "-fwrapv", "-w"],
        )
        for source in sorted(Path("jetbroker").glob("**/*.pyx"))
    ]


def main() -> None:
    jobs = os.cpu_count() or 1
    # The Makefile installs the package as editable without compiling, then compiles in place only what changed:
    # an editable install would compile everything each time.
    link_only = "JETBROKER_LINK_ONLY" in os.environ
    options = {"build_dir": ".build/cython", "nthreads": jobs, "compiler_directives": {"language_level": 3}}
    modules = [] if link_only else cythonize(extensions(), **options)
    setup(ext_modules=modules, options={"build_ext": {"parallel": jobs}})


if __name__ == "__main__":
    main()
