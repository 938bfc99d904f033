"""An S3 server on this machine (moto's), in a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support.process import free_port

BUCKET = "bucket"
LOGIN = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


@contextlib.contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """The environment variables by which clients find it; it has an empty bucket."""
    pytest.importorskip("moto")
    s3fs = pytest.importorskip("s3fs")
    s3fs.S3FileSystem.clear_instance_cache()  # of clients that know another server
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _make_bucket(port, server)
        yield LOGIN | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_MAX_ATTEMPTS": "1"}
    finally:
        server.kill()
        server.wait()


def _make_bucket(port: int, server: subprocess.Popen[bytes]) -> None:
    """As soon as it listens."""
    while True:
        assert server.poll() is None, "moto's server ended"
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("PUT", f"/{BUCKET}")
            assert connection.getresponse().status == 200
            return
        except ConnectionRefusedError:
            time.sleep(0.05)
        finally:
            connection.close()
