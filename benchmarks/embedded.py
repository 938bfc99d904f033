"""`python -m benchmarks.embedded`: how long `jetbroker.testing.embedded()` takes to be ready, in new processes.

The import of it is told apart. The end says whether the first starts keep their bound, in processor time: beside other
work the wall time says more about that work.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

BOUND_MS = 20.0

_PROGRAM = """
import json, time

figures = {}

def took(what, work):
    wall, processor = time.perf_counter(), time.process_time()
    done = work()
    figures[what] = [1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - processor)]
    return done

def imported():
    from jetbroker.testing import embedded
    return embedded

embedded = took("import", imported)
broker = took("first start", lambda: embedded().start())
took("reset", broker.reset)
took("kill and start", lambda: [broker.kill(), broker.start()])
broker.close()
took("next start", lambda: embedded().start()).close()
print(json.dumps(figures))
"""


def measured() -> dict[str, tuple[float, float]]:
    """Wall time and processor time of each step, in milliseconds, in one new process."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    return {step: (wall, processor) for step, (wall, processor) in json.loads(done.stdout).items()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embedded", description=__doc__)
    parser.add_argument("--processes", type=int, default=20, metavar="N", help="new processes (default: 20)")
    options = parser.parse_args(arguments)
    if options.processes < 1:
        parser.error("--processes: one at least")
    runs = [measured() for _ in range(options.processes)]
    print(
        f"{'ms, of ' + str(len(runs)) + ' processes':26}{'wall: median':>14}{'most':>8}{'cpu: median':>14}{'most':>8}"
    )
    for step in runs[0]:
        wall, processor = ([run[step][kind] for run in runs] for kind in (0, 1))
        print(f"{step:26}{statistics.median(wall):14.1f}{max(wall):8.1f}", end="")
        print(f"{statistics.median(processor):14.1f}{max(processor):8.1f}")
    kept = statistics.median(run["first start"][1] for run in runs) < BOUND_MS
    print(f"first start, processor time, median under {BOUND_MS:g} ms: {'yes' if kept else 'NO'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
