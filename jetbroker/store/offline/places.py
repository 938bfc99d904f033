"""Where a shipped store is: a folder of this machine, or whatever fsspec reaches (s3://, gs://, abfs://, …).

A place holds objects by name (`manifests/%24G/ORDERS.json`). An object that is written anew is there as a whole or as
it was before. Everything that goes wrong is a PlaceError with one sentence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlparse

from jetbroker.errors import JetbrokerError, PlaceError
from jetbroker.store.offline.place_errors import HALF_COPIED, S3, said

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")
FILE = "file"
SAME = {"s3a": S3, "s3n": S3}  # as Hadoop and Spark call them
PACKAGES = {
    S3: "'jetbroker[ship]'",
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), "adlfs"),
}
BLOCK_BYTES = 8 * 1024 * 1024  # of an upload or download: what is held in memory, and a part of a multipart upload
CHUNK_BYTES = 1024 * 1024
# An endpoint that is down is told within seconds; by itself the library goes on for a quarter of a minute, and for
# minutes where nothing answers at all
S3_CONNECT_S = 3
S3_ATTEMPTS = 3
S3_ATTEMPTS_ENV = "AWS_MAX_ATTEMPTS"  # who sets it decides
S3_ROUNDS = 2  # of so many attempts, where an answer does not come or is cut short

Paced = Callable[[int], None]  # called with the bytes that were read; may wait


class Place(Protocol):
    """Objects by name; `text` says where."""

    text: str

    def address(self, name: str) -> str:
        """The object's own path or URL."""

    def read(self, name: str, most: int) -> bytes | None:
        """All of an object; None when it is not there. One of more than `most` bytes is an error."""

    def size(self, name: str) -> int | None:
        """The bytes of an object; None when it is not there."""

    def chunks(self, name: str, pace: Paced) -> Iterator[bytes]:
        """An object bit by bit. Raises PlaceError when it is not there."""

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Put an object there; nothing of it is to be seen when this raises."""

    def remove(self, name: str) -> None:
        """Take an object away; none is fine."""

    def names(self, folder: str) -> list[str]:
        """The names of all objects below a folder."""


def is_elsewhere(store: str | os.PathLike[str]) -> bool:
    """Is this the URL of something that is no folder of this machine?"""
    scheme = SCHEME.match(os.fspath(store))
    return scheme is not None and scheme[1].lower() != FILE


def local_folder(store: str | os.PathLike[str]) -> Path:
    """The folder that a path or a file: URL means."""
    text = os.fspath(store)
    return Path(unquote(urlparse(text).path)) if SCHEME.match(text) else Path(text)


def place_of(store: str | os.PathLike[str]) -> Place:
    """The place that a path or URL means; nothing is asked of it yet. Raises PlaceError."""
    return RemotePlace(os.fspath(store)) if is_elsewhere(store) else FolderPlace(local_folder(store))


class FolderPlace:
    """A folder of this machine, or one that is mounted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.text = str(self.folder)

    def address(self, name: str) -> str:
        return f"{self.text}/{name}"

    def read(self, name: str, most: int) -> bytes | None:
        with self._told(name):
            try:
                data = Path(self.address(name)).read_bytes()
            except FileNotFoundError:
                return None
        return _bounded(data, most, self.address(name))

    def size(self, name: str) -> int | None:
        with self._told(name):
            try:
                return os.stat(self.address(name)).st_size
            except FileNotFoundError:
                return None

    def chunks(self, name: str, pace: Paced) -> Iterator[bytes]:
        with self._told(name), open(self.address(name), "rb") as file:
            yield from _chunks(file, pace)

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        path = Path(self.address(name))
        # what a kill leaves behind is an object that nothing names: the next shipper has it removed
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        with self._told(name):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with part.open("wb") as file:
                    file.writelines(chunks)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
            sync_folder(path.parent)

    def remove(self, name: str) -> None:
        with self._told(name):
            Path(self.address(name)).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        root = self.folder / folder
        return [path.relative_to(self.folder).as_posix() for path in sorted(root.rglob("*")) if path.is_file()]

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise PlaceError(f"{self.address(name)}: {error.strerror}: {HALF_COPIED}") from None
        except OSError as error:
            raise PlaceError(f"{self.address(name)}: {error.strerror or error}") from None


class RemotePlace:
    """What fsspec reaches. Credentials and endpoints come from where its library looks for them (AWS_…, ~/.aws)."""

    def __init__(self, url: str) -> None:
        found = SCHEME.match(url)
        if found is None:
            raise PlaceError(f"{url}: this is no URL")
        self._scheme = SAME.get(found[1].lower(), found[1].lower())
        self.text = f"{self._scheme}://{url[found.end() :].rstrip('/')}"
        try:
            import fsspec
        except ImportError:
            raise PlaceError(f"{url}: this needs fsspec: pip install 'jetbroker[ship]'") from None
        with self._told(""):
            options = _s3_options(fsspec.config.conf) if self._scheme == S3 else {}
            self._files, self._root = fsspec.core.url_to_fs(self.text, use_listings_cache=False, **options)
            if self._scheme == S3:
                self._files.retries = S3_ROUNDS

    def address(self, name: str) -> str:
        return f"{self.text}/{name}" if name else self.text

    def read(self, name: str, most: int) -> bytes | None:
        with self._told(name):
            try:
                data: bytes = self._files.cat_file(self._path(name))
            except FileNotFoundError:
                return None
        return _bounded(data, most, self.address(name))

    def size(self, name: str) -> int | None:
        with self._told(name):
            try:
                return int(self._files.size(self._path(name)))
            except FileNotFoundError:
                return None

    def chunks(self, name: str, pace: Paced) -> Iterator[bytes]:
        with (
            self._told(name),
            self._files.open(self._path(name), "rb", block_size=BLOCK_BYTES, cache_type="readahead") as file,
        ):
            yield from _chunks(file, pace)

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        with self._told(name):
            out = self._files.open(self._path(name), "wb", block_size=BLOCK_BYTES)
            try:
                for chunk in chunks:
                    out.write(chunk)
            except BaseException:
                # close() would make an object of what there is
                discard = getattr(out, "discard", None)
                if discard is not None:
                    discard()
                out.closed = True
                raise
            out.close()

    def remove(self, name: str) -> None:
        with self._told(name):
            try:
                self._files.rm_file(self._path(name))
            except FileNotFoundError:
                return

    def names(self, folder: str) -> list[str]:
        with self._told(folder):
            found = self._files.find(self._path(folder))
        return sorted(path[len(self._root) + 1 :] for path in found)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        """Each library behind fsspec has errors of its own, so that all of them are caught here, and only here."""
        try:
            yield
        except JetbrokerError:
            raise
        except ImportError as error:
            package = PACKAGES.get(self._scheme)
            advice = "" if package is None else f": pip install {package}"
            raise PlaceError(f"{self.address(name)}: {said(error, self._scheme)}{advice}") from None
        except Exception as error:
            raise PlaceError(f"{self.address(name)}: {said(error, self._scheme)}") from None


def _s3_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """How long to try; what fsspec's own settings say stands above."""
    calls: dict[str, Any] = {"connect_timeout": S3_CONNECT_S}
    if S3_ATTEMPTS_ENV not in os.environ:
        calls["retries"] = {"total_max_attempts": S3_ATTEMPTS}
    return {"config_kwargs": calls | settings.get(S3, {}).get("config_kwargs", {})}


def sync_folder(folder: Path) -> None:
    """The names in it are on disk when this returns."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _chunks(file: IO[bytes], pace: Paced) -> Iterator[bytes]:
    while True:
        chunk = file.read(CHUNK_BYTES)
        if not chunk:
            return
        pace(len(chunk))
        yield chunk


def _bounded(data: bytes, most: int, address: str) -> bytes:
    if len(data) > most:
        raise PlaceError(f"{address}: {len(data)} bytes, at most {most} are taken")
    return data
