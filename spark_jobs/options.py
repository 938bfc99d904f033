"""The options of the data source "jetstream": names and values. Every mistake is one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.places import is_elsewhere, local_folder
from jetbroker.store.offline.reader import MAX_SEQ, MAX_TIME_NS, MIN_TIME_NS, Query
from jetbroker.tables.asked import moment_ns

SOURCE = ("path", "stream", "account", "domain", "columns", "subject", "startSeq", "startTime", "verify",
          "failOnDataLoss", "logPlan", "maxMessagesPerPartition", "json", "msgpack", "model", "form",
          "mode")  # fmt: skip
READ = (*SOURCE, "endSeq", "endTime", "includeDeleted", "unackedBy", "view")
READ_STREAM = (*SOURCE, "startingOffsets", "maxMessagesPerTrigger")
LOGIN = ("user", "password", "token", "credentials", "nkey", "tlsCa", "tlsCert", "tlsKey")
WRITE = ("url", "subject", "stream", "writeId", "maxInFlight", "ackTimeout", *LOGIN)
ROLES = {"read": READ, "readStream": READ_STREAM, "write and writeStream": WRITE}
# what Spark itself hands on
OF_SPARK = ("path", "checkpointLocation", "queryName", "outputMode")
OF_A_TABLE = "provider"  # only a table of Spark's catalog brings it along, among its properties
TRUTH = {"true": True, "false": False}


def check_names(options: Mapping[str, str]) -> None:
    """Raises StoreReadError for an option that there is not, and for a table of Spark's catalog."""
    known = {name.lower() for names in ROLES.values() for name in names} | {name.lower() for name in OF_SPARK}
    given = {name.lower(): name for name in options}
    if OF_A_TABLE in given:
        raise StoreReadError(
            "Spark keeps no options of a table for a Python source, so a table could not be read: use CREATE TEMPORARY "
            "VIEW name USING jetstream OPTIONS (path '/path/of/store_dir', stream 'NAME')"
        )
    unknown = sorted(original for name, original in given.items() if name not in known)
    if unknown:
        there = sorted({name for names in ROLES.values() for name in names} - {"path"})
        raise StoreReadError(f"unknown option {', '.join(unknown)}; there are {', '.join(there)}")


def check_role(options: Mapping[str, str], role: str) -> None:
    """Raises StoreReadError for an option that only means something elsewhere."""
    given = {name.lower() for name in options}
    mine = {name.lower() for name in (*ROLES[role], *OF_SPARK)}
    for other, names in ROLES.items():
        for name in names:
            if name.lower() in given and name.lower() not in mine:
                raise StoreReadError(f"option {name} is for {other}, not for {role}")


def query_of(options: Mapping[str, str]) -> Query:
    """The options that choose rows. Raises StoreReadError for a value that makes no sense."""
    return Query(
        start_seq=sequence(options, "startSeq", 0),
        end_seq=sequence(options, "endSeq", MAX_SEQ),
        start_ns=time_ns(options, "startTime", MIN_TIME_NS),
        end_ns=time_ns(options, "endTime", MAX_TIME_NS + 1) - 1,
        subject=options.get("subject", "").strip(),
        verify=flag(options, "verify", False),
        include_deleted=flag(options, "includeDeleted", False),
    )


def sequence(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        raise StoreReadError(f"option {name}: {text!r} is not a sequence number") from None
    return min(max(value, 0), MAX_SEQ)


def count(options: Mapping[str, str], name: str, default: int | None, most: int = 2**63 - 1) -> int | None:
    """A number from 1 on."""
    text = options.get(name)
    if text is None:
        return default
    if not text.strip().isdecimal() or not 1 <= int(text) <= most:
        raise StoreReadError(f"option {name}: {text!r} is not a number from 1 to {most}")
    return int(text)


def time_ns(options: Mapping[str, str], name: str, default: int) -> int:
    """ISO 8601 (UTC unless it says otherwise), or milliseconds since 1970."""
    text = options.get(name)
    if text is None:
        return default
    return moment_ns(text, f"option {name}")


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name)
    if text is None:
        return default
    if text.strip().lower() not in TRUTH:
        raise StoreReadError(f"option {name}: {text!r} is neither true nor false")
    return TRUTH[text.strip().lower()]


def store_path(options: Mapping[str, str]) -> str:
    """The folder that the options name, or the URL of a store that was shipped."""
    path = options.get("path")
    if not path:
        raise StoreReadError('no store is given: .load("/path/of/store_dir")')
    return path if is_elsewhere(path) else str(local_folder(path).absolute())
