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
            # wrap-around arithmetic and type punning are what Cython's own output relies on
            extra_compile_args=["-O3", "-fno-strict-aliasing", "-fwrapv"],
        )
        for source in sorted(Path("jetbroker").glob("**/*.pyx"))
    ]


if __name__ == "__main__":
    jobs = os.cpu_count() or 1
    setup(
        ext_modules=cythonize(
            extensions(), build_dir=".build/cython", nthreads=jobs, compiler_directives={"language_level": 3}
        ),
        options={"build_ext": {"parallel": jobs}},
    )
