"""The files a running broker leaves for others: the pid file, and the ports file that names its listeners."""

import errno
import json
import os
import secrets
import stat
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jetbroker.errors import ConfigError
from jetbroker.logs.logger import Logger
from jetbroker.program import program_name

if TYPE_CHECKING:
    from jetbroker.config.options import Options

_PID_MODE, _PORTS_MODE = 0o600, 0o666  # of new files, less the umask
_MAX_LINKS = 40  # one behind the other, the kernel's bound


class RunFiles:
    """The pid file and the ports file of one broker, each only where the options name a place for it."""

    def __init__(self, options: "Options", log: Logger | None = None) -> None:
        self.log = log or Logger()
        self.pid_path = options.pid_file
        self.ports_path = _ports_path(options.ports_file_dir)
        self._urls: Mapping[str, Sequence[str]] = {}

    def write_pid(self) -> None:
        """Write the process id, bare digits. The file stays at exit, as with nats-server.

        Raises :class:`~jetbroker.errors.ConfigError` when it cannot be written: a supervisor that waits for it would
        wait for ever.
        """
        if not self.pid_path:
            return
        try:
            _replace(_followed(self.pid_path), str(os.getpid()), _PID_MODE)
        except (OSError, ValueError) as error:
            raise ConfigError(f"Could not write pidfile: open {self.pid_path}: {_why(error)}") from error

    def write_ports(self, urls: Mapping[str, Sequence[str]]) -> None:
        """Write the addresses by kind of listener, `{"nats": ["nats://127.0.0.1:4222"]}`.

        Readers never see half a file. A failure is logged: the broker works without this file.
        """
        self._urls = urls
        if not self.ports_path:
            return
        try:
            _replace(self.ports_path, json.dumps(urls, separators=(",", ":")), _PORTS_MODE)
        except (OSError, ValueError) as error:
            self.log.error(f"Error writing ports file ({self.ports_path}): open {self.ports_path}: {_why(error)}")

    def move_pid(self, path: str) -> None:
        """Write another pid file; the one before stays, as at exit. Raises ConfigError."""
        self.pid_path = path
        self.write_pid()

    def move_ports(self, directory: str) -> None:
        """Have the ports file in another directory, or ("") no more."""
        self.remove_ports()
        self.ports_path = _ports_path(directory)
        self.write_ports(self._urls)

    def remove_ports(self) -> None:
        """At exit."""
        if not self.ports_path:
            return
        try:
            os.unlink(self.ports_path)
        except (OSError, ValueError) as error:
            self.log.error(f"Error cleaning up ports file {self.ports_path}: remove {self.ports_path}: {_why(error)}")


def _ports_path(directory: str) -> str:
    return os.path.join(directory, f"{program_name()}_{os.getpid()}.ports") if directory else ""


def _replace(path: str, text: str, mode: int) -> None:
    """Write a file at once. A file that is there keeps its mode, and is all that has to be writable."""
    there = os.path.exists(path)
    if there and not os.path.isfile(path):  # a device or a pipe: nothing to replace
        _overwrite(path, text)
        return
    # a name that nobody can have prepared: it may be a folder of everybody's
    part = f"{path}.{secrets.token_hex(8)}.part"
    try:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    except PermissionError:
        if not there:
            raise
        _overwrite(path, text)
        return
    try:
        try:
            if there:
                os.fchmod(fd, os.stat(path).st_mode & 0o777)
            os.write(fd, text.encode())
        finally:
            os.close(fd)
        os.replace(part, path)
    except OSError:
        os.unlink(part)
        raise


def _overwrite(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii", opener=_open_no_link) as file:
        file.write(text)


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, _PID_MODE)


def _followed(path: str) -> str:
    """Where a pid file is that may be a link: but none that a stranger has put into a folder of everybody's.

    That is the kernel's own rule (fs.protected_symlinks), which is not switched on everywhere.
    """
    for _ in range(_MAX_LINKS):
        if not os.path.islink(path):
            return path
        folder = os.stat(os.path.dirname(path) or ".")
        is_shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
        if is_shared and os.lstat(path).st_uid not in (os.geteuid(), folder.st_uid):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _why(error: Exception) -> str:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{why[:1].lower()}{why[1:]}"
