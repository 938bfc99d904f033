"""An Iceberg table: the position is a property that each commit sets together with its files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import parquet

from jetbroker.errors import StoreReadError
from spark_jobs.open_table import files
from spark_jobs.open_table.files import DataFile, Partition
from spark_jobs.open_table.layout import Layout

# pyiceberg (0.12) judges manifests in several threads by one object that remembers which one it is at: a commit then
# does not find files that it is to take out. It reads this when it makes its pool of threads.
os.environ["PYICEBERG_MAX_WORKERS"] = "1"

try:
    from pyiceberg import exceptions
    from pyiceberg.catalog import Catalog, load_catalog
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.conversions import from_bytes
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
        schema_to_pyarrow,
    )
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.manifest import DataFileContent, FileFormat, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.transforms import DayTransform, IdentityTransform
    from pyiceberg.typedef import Record
    from pyiceberg.types import LongType
    from pyiceberg.utils.concurrent import ExecutorFactory
    from sqlalchemy.exc import SQLAlchemyError
except ImportError:
    raise StoreReadError("--format iceberg needs pyiceberg: pip install 'jetbroker[iceberg]'") from None

ExecutorFactory._instance = None  # a pool that this process has already may have more threads

POSITION = "jetbroker.position"
NAMESPACE = "jetbroker"
EPOCH = date(1970, 1, 1)
URL = re.compile(r"[a-z][a-z0-9+]*:")
PROPERTIES = {
    "format-version": "2",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",  # each commit writes one: the oldest go
    "write.metadata.previous-versions-max": "20",
    "write.parquet.compression-codec": "zstd",
}
REFUSALS = (
    SQLAlchemyError,
    OSError,
    ValueError,
    exceptions.ValidationError,
    exceptions.ValidationException,
    exceptions.RESTError,
    exceptions.NoSuchNamespaceError,
    exceptions.CommitFailedException,
    exceptions.CommitStateUnknownException,
)


def catalog_of(dest: Path, asked: str) -> Catalog:
    """The SQL catalog in `dest`; or the one that is asked for: a URI, or a name in pyiceberg's configuration."""
    if set("?#%") & set(str(dest)):
        raise StoreReadError(f"{str(dest)!r}: the folder of an Iceberg table cannot have ?, # or % in its name")
    with _told("the catalog"):
        if not asked:
            return SqlCatalog(NAMESPACE, uri=f"sqlite:///{dest}/catalog.db", warehouse=f"file://{dest}")
        return load_catalog(NAMESPACE, uri=asked) if URL.match(asked) else load_catalog(asked)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """A refusal as one sentence."""
    try:
        yield
    except REFUSALS as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise StoreReadError(f"{what} cannot be used: {line[:300]}") from None


def _local(location: str) -> Path:
    """The path of a `file://` URL; Iceberg's libraries do not encode them."""
    return Path(urlsplit(location).path)


class IcebergTable:
    """Its files are in `dest/data`, its metadata in `dest/metadata`; `version-hint.text` there names the newest."""

    def __init__(self, dest: Path, layout: Layout, catalog: Catalog, name: str) -> None:
        self._dest = dest
        self._layout = layout
        self._name = name
        with _told(f"table {name!r}"):
            self._table = self._opened(catalog)
            self._schema: pa.Schema = schema_to_pyarrow(self._table.schema())
        if _local(self._table.location()) != dest:
            raise StoreReadError(
                f"table {name!r} of the catalog is at {self._table.location()}: name another with --table"
            )
        if set(self._schema.names) != set(layout.with_tokens.names):
            raise StoreReadError(f"the columns of table {name!r} are not those of this export: name another folder")
        self._hint()

    def _opened(self, catalog: Catalog) -> Table:
        try:
            return catalog.load_table(self._name)
        except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError):
            catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        creation = catalog.create_table_transaction(
            self._name, self._layout.with_tokens, location=f"file://{self._dest}", properties=PROPERTIES
        )
        with creation:
            with creation.update_spec() as spec:
                spec.add_field("time", DayTransform(), "time_day")
                for name in self._layout.token_names:
                    spec.add_field(name, IdentityTransform(), name)
        return catalog.load_table(self._name)

    @property
    def file_schema(self) -> pa.Schema:
        return self._schema

    def position(self) -> int:
        return int(self._table.properties.get(POSITION, 0))

    def files(self) -> list[DataFile]:
        seq = self._table.schema().find_field("seq").field_id
        found = []
        for task in self._table.scan().plan_files():
            file = task.file
            if task.delete_files or file.spec_id != self._table.spec().spec_id:
                raise StoreReadError(
                    f"another program has deleted rows of table {self._name!r}, or parted it otherwise: have it "
                    "rewrite the table's data files first"
                )
            first, last = (
                int(from_bytes(LongType(), bounds[seq])) for bounds in (file.lower_bounds, file.upper_bounds)
            )
            partition = Partition(file.partition[0], tuple(file.partition[1 + n] for n in range(self._layout.tokens)))
            found.append(
                DataFile(
                    _local(file.file_path), partition, file.record_count, file.file_size_in_bytes, first, last, file
                )
            )
        return found

    def folder(self, partition: Partition) -> Path:
        return self._dest / "data" / (EPOCH + timedelta(partition.day)).isoformat()

    def commit(
        self, added: Sequence[DataFile], removed: Sequence[DataFile], position: int, same_rows: bool = False
    ) -> None:
        with _told(f"table {self._name!r}"):
            with self._table.transaction() as change:
                change.set_properties({POSITION: str(position)})
                if added or removed:
                    update = change.update_snapshot(snapshot_properties={POSITION: str(position)})
                    with update.overwrite() if removed else update.merge_append() as snapshot:
                        for file in removed:
                            snapshot.delete_data_file(file.handle)
                        for file in added:
                            snapshot.append_data_file(self._entry(file))
        self._hint()

    def _entry(self, file: DataFile) -> IcebergFile:
        metadata, schema = self._table.metadata, self._table.schema()
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=parquet.read_metadata(file.path),
            stats_columns=compute_statistics_plan(schema, metadata.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        return IcebergFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"file://{file.path}",
            file_format=FileFormat.PARQUET,
            partition=Record(file.partition.day, *file.partition.tokens),
            file_size_in_bytes=file.bytes,
            sort_order_id=None,
            spec_id=metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )

    def _hint(self) -> None:
        """For readers without a catalog; made right by the next run if this one ends before."""
        name = _local(self._table.metadata_location).name.removesuffix(".metadata.json")
        files.replace_text(self._dest / "metadata" / "version-hint.text", name)

    def sweep(self) -> None:
        files.sweep(self._dest / "data", self._referenced())

    def _referenced(self) -> set[Path]:
        """The files of every state that is kept."""
        paths = (
            entry.data_file.file_path
            for manifest in self._manifests()
            for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)
        )
        return {_local(path) for path in paths}

    def _manifests(self) -> Iterable[ManifestFile]:
        """Those of every state that is kept, each once."""
        lists = (snapshot.manifests(self._table.io) for snapshot in self._table.snapshots())
        return {manifest.manifest_path: manifest for manifests in lists for manifest in manifests}.values()

    def forget(self, before: datetime) -> None:
        with _told(f"table {self._name!r}"):
            self._table.maintenance.expire_snapshots().older_than(before).commit()
            self._table.refresh()
        self._hint()
        self.sweep()
        kept = {manifest.manifest_path for manifest in self._manifests()}
        kept |= {snapshot.manifest_list for snapshot in self._table.snapshots()}
        for path in (self._dest / "metadata").glob("*.avro"):
            if f"file://{path}" not in kept and path.stat().st_mtime < before.timestamp():
                path.unlink()  # another program may be about to refer to newer ones
