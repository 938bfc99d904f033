"""Where a broker for tests lives: a port that stays its own while it is down, and a folder that goes away."""

import os
import shutil
import socket
import tempfile
import weakref
from pathlib import Path

from jetbroker.errors import JetbrokerError

HOST = "127.0.0.1"


class ServerError(JetbrokerError):
    """The broker did not start, did not end, or cannot do what was asked. The text says why, or holds its log."""


def check_process(url: str, owner: int) -> None:
    """Raise :class:`ServerError` in a fork of the process that has the broker: its streams and port are not ours."""
    if os.getpid() != owner:
        raise ServerError(
            f"the broker at {url} belongs to process {owner}, this is a fork of it ({os.getpid()}): "
            "connect to its url, or make a broker here"
        )


class Port:
    """A port of 127.0.0.1 that nobody else is given, whether or not the broker listens on it just now."""

    def __init__(self, number: int = 0) -> None:
        """`number` 0: any free one. Raises :class:`ServerError` when it is taken."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            # bound without listening: who connects is refused, and the broker may bind the port beside it
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((HOST, number))
        except (OSError, OverflowError) as error:
            self._socket.close()
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise ServerError(f"port {number} of {HOST} cannot be had: {why}; port 0 takes any free one") from None
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Others may have it."""
        self._socket.close()


class Folder:
    """A broker's files: its configuration when that was given as a text, and its store."""

    def __init__(self, config: str | os.PathLike[str], store_dir: str | os.PathLike[str]) -> None:
        if isinstance(config, str) and config.endswith(".conf") and not any(map(str.isspace, config)):
            raise ServerError(f"config={config!r} is a text, and looks like the name of a file: pass it as a Path")
        path = tempfile.mkdtemp(prefix="jetbroker-")
        self._remove = weakref.finalize(self, _remove, path, os.getpid())
        self._is_own = not store_dir
        self.store_dir = os.fspath(store_dir) or os.path.join(path, "store")
        self.config_file = config if isinstance(config, str) else os.fspath(config)
        if isinstance(config, str) and config:
            self.config_file = os.path.join(path, "broker.conf")
            Path(self.config_file).write_text(config, encoding="utf-8")

    def check_reset(self) -> None:
        """Raise :class:`ServerError` when the streams are not ours to remove."""
        if not self._is_own:
            raise ServerError(f"reset() would remove the streams in {self.store_dir}: leave out store_dir to use it")

    def empty_store(self) -> None:
        """Remove all streams; nobody has them open."""
        shutil.rmtree(self.store_dir, ignore_errors=True)

    def close(self) -> None:
        """Remove what is ours."""
        self._remove()


def _remove(path: str, pid: int) -> None:
    if os.getpid() == pid:  # not in the child of a fork, which ends earlier
        shutil.rmtree(path, ignore_errors=True)
