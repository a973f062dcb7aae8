"""Tables of each kind that `Landing` writes to, and what is in them."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from tandem_kafka.tables import Database, DeltaLake, ParquetDirectory, Sink

#: A record: partition, offset, value.
Row = tuple[int, int, bytes]

_COLUMNS = '"topic" VARCHAR(249), "partition" INTEGER, "offset" BIGINT, "value" {}'


class Table(Protocol):
    """A table, which several processes may open."""

    def open(self) -> Sink:
        """Open it for writing."""

    def rows(self) -> list[Row]:
        """Return what is committed, sorted."""


class ParquetTable:
    def __init__(self, place: Path) -> None:
        self.place = place / "parquet"

    def open(self) -> Sink:
        return ParquetDirectory(self.place)

    def rows(self) -> list[Row]:
        import pyarrow.parquet as pq

        if not self.place.exists():
            return []
        files = ParquetDirectory(self.place).files()
        return sorted(row for file in files for row in _rows(pq.ParquetFile(file).read()))


class DeltaTable:
    def __init__(self, place: Path) -> None:
        self.place = place / "delta"

    def open(self) -> Sink:
        return DeltaLake(self.place)

    def rows(self) -> list[Row]:
        import deltalake

        if not self.place.exists():
            return []
        return sorted(_rows(deltalake.DeltaTable(self.place).to_pyarrow_table()))


def _rows(table: Any) -> Iterator[Row]:
    for row in table.to_pylist():
        if row["offset"] is not None:
            yield row["partition"], row["offset"], row["value"]


class _SqlTable:
    binary = "BLOB"

    def connect(self) -> Any:
        raise NotImplementedError

    def create(self) -> None:
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(f"CREATE TABLE landed ({_COLUMNS.format(self.binary)})")
            connection.commit()

    def open(self) -> Sink:
        return Database(self.connect(), "landed")

    def rows(self) -> list[Row]:
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute('SELECT "partition", "offset", "value" FROM landed')
            found = cursor.fetchall()
            return sorted((partition, offset, bytes(value)) for partition, offset, value in found)


class SqliteTable(_SqlTable):
    def __init__(self, place: Path) -> None:
        self.place = place / "table.sqlite"

    def connect(self) -> Any:
        return sqlite3.connect(self.place, timeout=20)


class DuckdbTable(_SqlTable):
    def __init__(self, place: Path) -> None:
        self.place = place / "table.duckdb"

    def connect(self) -> Any:
        import duckdb

        deadline = time.monotonic() + 20
        while True:
            try:
                return duckdb.connect(str(self.place))
            except duckdb.IOException:  # another process has it open, or was killed just now
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def create(self) -> None:
        with closing(self.connect()) as connection:
            connection.execute(f"CREATE TABLE landed ({_COLUMNS.format(self.binary)})")


class PostgresTable(_SqlTable):
    binary = "BYTEA"

    def __init__(self, address: str) -> None:
        self.address = address

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(self.address)


@contextmanager
def postgres(place: Path) -> Iterator[str]:
    """Run a PostgreSQL server, and yield how to connect to it."""
    found = shutil.which("initdb")
    if found is None:
        raise LookupError("PostgreSQL's initdb is not in PATH")
    programs = Path(found).resolve().parent
    # The server refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        for each in (place, *place.parents[:3]):
            if str(each).startswith("/tmp/"):  # noqa: S108 - where pytest made it
                each.chmod(0o755)
        shutil.chown(place, user)
    name = user or pwd.getpwuid(os.geteuid()).pw_name
    data = place / "data"
    begin = [programs / "initdb", "-D", data, "-A", "trust", "-U", name, "--no-sync"]
    subprocess.run(begin, check=True, capture_output=True, timeout=60, user=user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", "", "-F"]
    server = subprocess.Popen(
        [programs / "postgres", *options], user=user, stderr=subprocess.DEVNULL
    )
    try:
        yield _ready(f"host=127.0.0.1 port={port} user={name} dbname=postgres")
    finally:
        server.send_signal(signal.SIGINT)  # a fast shutdown
        server.wait(30)


def _ready(address: str) -> str:
    import psycopg

    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(address, connect_timeout=5).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return address
