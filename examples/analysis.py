"""A stream as a table, read from the broker's files: it is not asked, and may be stopped.

pip install 'jetbroker[arrow]' pandas polars duckdb
python analysis.py STORE          # the broker's store_dir
"""

import sys
from typing import Any

import duckdb
import pandas
import polars

import jetbroker

COLUMNS = "time, subject, item, price"
PAYLOAD = "item string, price double"  # the payload is JSON; these fields become columns


def turnover_with_pandas(store: str) -> pandas.Series:
    """The turnover of each item."""
    orders = jetbroker.scan(store, "ORDERS", columns=COLUMNS, json=PAYLOAD).read_pandas()
    return orders.groupby("item")["price"].sum()


def turnover_with_polars(store: str) -> polars.DataFrame:
    """The same, of subjects that begin with orders.eu."""
    scan = jetbroker.scan(store, "ORDERS", columns=COLUMNS, json=PAYLOAD, subject="orders.eu.>")
    orders = polars.DataFrame(polars.from_arrow(scan))
    return orders.group_by("item").agg(polars.col("price").sum()).sort("item")


def dearest_with_duckdb(store: str, count: int) -> list[tuple[Any, ...]]:
    """The dearest orders, by SQL."""
    orders = jetbroker.scan(store, "ORDERS", columns="seq, item, price", json=PAYLOAD)
    with duckdb.connect() as database:
        database.register("orders", orders)
        return database.execute("SELECT seq, item, price FROM orders ORDER BY price DESC LIMIT ?", [count]).fetchall()


def main(store: str) -> None:
    print(turnover_with_pandas(store))
    print(turnover_with_polars(store))
    print(dearest_with_duckdb(store, 3))


if __name__ == "__main__":
    main(sys.argv[1])
