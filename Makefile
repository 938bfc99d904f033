# The verbs of this repository. Everything lives in .venv, made here on first use.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
CONFIG ?= configs/standalone.conf
# `make run` listens on this machine only, whatever the file says (HOST=0.0.0.0: on all addresses).
HOST ?= 127.0.0.1
ARGS ?=
# What `make report` reads.
STORE ?= data
STREAM ?= ORDERS
# Much of the suite waits for clocks and disks: seven workers keep two cores busy.
WORKERS ?= 7

SOURCES := $(shell find jetbroker -name '*.pyx' -o -name '*.pxd')
STUBBED := $(shell find jetbroker -name '*.pyi' | sed 's/\.pyi$$//; s|/|.|g')
FUZZ_SOURCES := $(shell find fuzz -name '*.pyx')
TOOLS := $(VENV)/.jetbroker-tools
CORE := $(VENV)/.jetbroker-core
DEV := $(VENV)/.jetbroker-dev
SPARK := $(VENV)/.jetbroker-spark
DOCS := $(VENV)/.jetbroker-docs
RELEASE := $(VENV)/.jetbroker-release
WHEELS := .build/wheels
BUILT := .build/extensions.stamp
FUZZ_BUILT := .build/fuzz.stamp

# What `make test-deep` fuzzes, and with how much.
FUZZED ?= protocol protocol-fast leaf-protocol interest subjects config connect headers websocket upgrade proxy nkeys transform files meaning
FUZZED_INPUTS ?= 20000
# Random sequences that it plays against nats-server.
SEQUENCES ?= 20000

.PHONY: help run build test test-deep test-links lint format bench compatibility demo report fuzz fuzz-asan wheel test-wheel test-image test-newcomer reference docs clean prerequisites java

help:
	@echo "make run     build, then start the broker on $(CONFIG), at 127.0.0.1 (CONFIG=file, HOST=0.0.0.0)"
	@echo "make test    the whole test suite (ARGS='-k name' for a part, WORKERS=0 for one process)"
	@echo "make test-deep  property tests with 3,000 examples and each fuzzer for longer (ARGS=tests/wire, FUZZED='headers config')"
	@echo "make test-links lose the link between two brokers again and again, until Ctrl-C (ARGS='--cuts 100 --leaf nats-server')"
	@echo "make lint    ruff, cython-lint, mypy, links of the pages, stubs against what is compiled"
	@echo "make format  let ruff format the Python files"
	@echo "make bench   the benchmarks (ARGS='--quick --only core')"
	@echo "make compatibility  software that other people wrote, on nats-server and jetbroker (ARGS='nats-py go-kit')"
	@echo "make demo    flights through streams into Spark"
	@echo "make report  Spark reports what is in a stream (STREAM=ORDERS STORE=data)"
	@echo "make fuzz    generated input (ARGS='protocol --inputs 1000000', ARGS=meaning); make fuzz-asan: with memory checks"
	@echo "make build   compile what changed"
	@echo "make wheel   sdist and manylinux wheel into dist/ (PYTHON=python3.13 VENV=.venv-313 for another Python)"
	@echo "make test-wheel  make wheel, then try it where nothing else is"
	@echo "make test-image  the steps of docker/Dockerfile in a bare root, without Docker (as root, with debootstrap)"
	@echo "make reference  write docs/reference and the man page anew, from the code"
	@echo "make docs    the documentation as a site, in .build/site"
	@echo "make test-newcomer  the commands of docs/TUTORIAL.md in a bare root, timed (SUITE=trixie; as root, with debootstrap)"
	@echo "make clean   remove everything that was built, .venv included"

prerequisites:
	@command -v $(PYTHON) >/dev/null || { echo "jetbroker needs Python 3.11 or later: no '$(PYTHON)' on the PATH (set PYTHON=...)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "jetbroker needs Python 3.11 or later, '$(PYTHON)' is $$($(PYTHON) -V 2>&1) (set PYTHON=...)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv module is missing (Debian, Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	@command -v $${CC:-cc} >/dev/null || { echo "a C compiler is needed (Debian, Ubuntu: apt-get install gcc libc6-dev)" >&2; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' || { echo "Python's C headers are missing (Debian, Ubuntu: apt-get install python3-dev)" >&2; exit 1; }

java:
	@command -v java >/dev/null || { echo "Spark needs Java 17 or later: no 'java' on the PATH (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)" >&2; exit 1; }
	@major=$$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1); [ "$${major:-0}" -ge 17 ] || { echo "Spark needs Java 17 or later, this one is $${major:-unknown}" >&2; exit 1; }

$(VENV)/bin/python: | prerequisites
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip

$(TOOLS): setup.py | $(VENV)/bin/python
	$(PY) -m pip install --quiet --no-compile "setuptools>=80" "Cython>=3.3"
	@touch $@

# Only links to this directory (see setup.py); $(BUILT) compiles.
$(CORE): pyproject.toml $(TOOLS)
	JETBROKER_LINK_ONLY=1 $(PY) -m pip install --quiet --no-build-isolation --editable .
	@touch $@

$(DEV): $(CORE)
	JETBROKER_LINK_ONLY=1 $(PY) -m pip install --quiet --no-build-isolation --editable '.[dev]'
	@touch $@

$(SPARK): $(CORE)
	JETBROKER_LINK_ONLY=1 $(PY) -m pip install --quiet --no-build-isolation --editable '.[spark]'
	@touch $@

$(DOCS): $(CORE)
	JETBROKER_LINK_ONLY=1 $(PY) -m pip install --quiet --no-build-isolation --editable '.[docs]'
	@touch $@

$(RELEASE): $(CORE)
	JETBROKER_LINK_ONLY=1 $(PY) -m pip install --quiet --no-build-isolation --editable '.[release]'
	@touch $@

$(BUILT): $(TOOLS) $(SOURCES)
	$(PY) setup.py --quiet build_ext --inplace
	@mkdir -p .build && touch $@

# What only tests and fuzzers need.
$(FUZZ_BUILT): $(BUILT) $(FUZZ_SOURCES)
	JETBROKER_WITH=fuzz $(PY) setup.py --quiet build_ext --inplace
	@touch $@

# What it needs at run time is fetched while it compiles.
build:
	@$(MAKE) --no-print-directory --jobs=2 $(CORE) $(BUILT)

run: build
	@[ -f $(CONFIG) ] || { echo "no such configuration file: $(CONFIG)" >&2; exit 1; }
	$(PY) -m jetbroker -c $(CONFIG) -a $(HOST) $(ARGS)

# Without bytecode each worker, and each broker of a test, would compile what it imports.
test test-deep: export PYTHONDONTWRITEBYTECODE :=
# Java that compiles but a little: its optimizer would take longer than the queries of tests.
test test-deep: export JDK_JAVA_OPTIONS := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC

test: build $(FUZZ_BUILT) $(DEV)
	$(PY) -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-deep: build $(FUZZ_BUILT) $(DEV)
	SEQUENCES=$(SEQUENCES) $(PY) -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --hypothesis-profile=nightly -o timeout=3600 $(ARGS)
	for target in $(FUZZED); do $(PY) -m fuzz $$target --inputs $(FUZZED_INPUTS) || exit 1; done

test-links: build $(DEV)
	$(PY) -m tests.support.link_loss $(ARGS)

lint: build $(DEV)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cython-lint jetbroker
	$(VENV)/bin/mypy
	$(PY) -m tools.links
	@$(PY) -m mypy.stubtest --concise --ignore-missing-stub --ignore-disjoint-bases \
		--mypy-config-file pyproject.toml $(STUBBED)

format: $(DEV)
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

bench: build $(DEV)
	$(PY) -m benchmarks.run $(ARGS)

compatibility: build $(DEV)
	@$(PY) -m compatibility $(ARGS)

demo: java build $(DEV)
	$(PY) demo/flights.py $(ARGS)

report: java build $(SPARK)
	$(PY) -m spark_jobs.stream_report $(STORE) $(STREAM) --engine spark $(ARGS)

fuzz: build $(FUZZ_BUILT) $(DEV)
	$(PY) -m fuzz $(or $(ARGS),protocol)

fuzz-asan: build $(DEV)
	$(PY) -m fuzz.sanitized -m fuzz $(or $(ARGS),protocol)

# The wheel is built from the sdist, which knows nothing of git.
wheel: $(RELEASE)
	rm -rf $(WHEELS)
	$(PY) -m build --outdir $(WHEELS) .
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PY) -m auditwheel repair --strip --wheel-dir dist $(WHEELS)/*.whl
	cp $(WHEELS)/*.tar.gz dist/
	@ls -l dist

test-wheel: wheel $(DEV)
	JETBROKER_DIST=dist $(PY) -m pytest tests/packaging/test_wheel.py $(ARGS)

BARE_ROOT := .build/bare-root
$(BARE_ROOT):
	@command -v debootstrap >/dev/null || { echo "debootstrap is missing (Debian, Ubuntu: apt-get install debootstrap)" >&2; exit 1; }
	@mkdir -p .build
	debootstrap --variant=minbase bookworm $@.part >.build/bare-root.log
	mv $@.part $@

test-image: build $(DEV) | $(BARE_ROOT)
	JETBROKER_BARE_ROOT=$(BARE_ROOT) $(PY) -m pytest tests/packaging/test_image.py -s $(ARGS)

SUITE ?= bookworm
NEWCOMER_ROOT := .build/newcomer-$(SUITE)
$(NEWCOMER_ROOT):
	@command -v debootstrap >/dev/null || { echo "debootstrap is missing (Debian, Ubuntu: apt-get install debootstrap)" >&2; exit 1; }
	@mkdir -p .build
	debootstrap --variant=minbase $(SUITE) $@.part >.build/newcomer.log
	mv $@.part $@

test-newcomer: build | $(NEWCOMER_ROOT)
	$(PY) -m tools.newcomer $(NEWCOMER_ROOT)

reference: build $(DEV)
	$(PY) -m tools.reference

SITE := .build/site
docs: $(DOCS)
	$(VENV)/bin/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env -c docs -d .build/doctrees . $(SITE)
	@$(PY) -m tools.links --site $(SITE)
	@echo "$(SITE)/index.html"

clean:
	rm -rf $(VENV) .build build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find jetbroker spark_jobs benchmarks compatibility tests \( -name '*.so' -o -name '__pycache__' \) -prune -exec rm -rf {} +
