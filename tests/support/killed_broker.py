"""Run a broker that kills itself, as kill -9 would, at the n-th call of its store on the disk.

`killed_broker.py N SEGMENT_BYTES [flags of jetbroker]`; N = 0: never. Reads are not counted: they change nothing.
N may be `named.K`, too: the K-th call from the moment on when a folder with a hidden name is given its own.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
COUNTED = {"open", "write", "fdatasync", "sync_directory", "truncate", "rename", "unlink", "mkdir", "rmdir"}


def main() -> int:
    naming = sys.argv[1].startswith("named.")
    at, segment_bytes = int(sys.argv[1].removeprefix("named.")), int(sys.argv[2])
    sys.path.insert(0, str(ROOT))
    from jetbroker.daemon import cli
    from jetbroker.store import store
    from jetbroker.store.disk import ObservedDisk

    lock = threading.Lock()
    left = at

    class DeadlyDisk(ObservedDisk):
        def before(self, call: str, path: str, size: int, offset: int) -> int | None:
            nonlocal left, naming
            if naming and call == "rename" and Path(path).name.startswith(".new-"):
                naming = False
            if call in COUNTED and not naming:
                with lock:
                    left -= 1
                    if left == 0:
                        os.kill(os.getpid(), signal.SIGKILL)
            return None

    store.Disk = DeadlyDisk  # type: ignore[attr-defined]
    store.Store.open.__func__.__kwdefaults__["segment_bytes"] = segment_bytes  # type: ignore[attr-defined]
    return cli.main(sys.argv[3:])


if __name__ == "__main__":
    sys.exit(main())
