"""An object store that is down, refuses or lacks the bucket: one sentence that says what to do, after a few tries."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import jetbroker
from jetbroker.errors import PlaceError
from jetbroker.store.offline.places import S3_ATTEMPTS, S3_ATTEMPTS_ENV
from tests.support import process
from tests.support.s3 import BUCKET, LOGIN, s3_server
from tests.support.store_command import Run
from tests.support.stores import StreamWriter

pytest.importorskip("pyarrow")
s3fs = pytest.importorskip("s3fs")

URL = "s3://bucket/x"
UNREACHABLE = (
    "see that it runs and can be reached from this machine, and that AWS_ENDPOINT_URL is right (not set: Amazon's)"
)
NO_LOGIN = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, to a login that may use the bucket"
COMMANDS = [
    ("ls", URL),
    ("info", URL, "S"),
    ("cat", URL, "S"),
    ("verify", URL, "S"),
    ("export", URL, "S", "-o", "parquet", "out.parquet"),
    ("infer", URL, "S"),
    ("restore", URL, "again"),
    ("ship", "store", URL),
]


class Refusing(http.server.BaseHTTPRequestHandler):
    """An S3 that answers every request with one error, and counts them."""

    status = 500
    code = "InternalError"
    requests = 0

    def do_GET(self) -> None:
        type(self).requests += 1
        body = f"<?xml version='1.0'?><Error><Code>{self.code}</Code><Message>No.</Message></Error>".encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_PUT = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Refusing]]:
    handler = type("One", (Refusing,), {})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        use(monkeypatch, f"http://127.0.0.1:{server.server_port}")
        yield handler
        server.shutdown()
        thread.join()


def use(monkeypatch: pytest.MonkeyPatch, endpoint: str, login: dict[str, str] = LOGIN) -> None:
    """Nothing but this tells where S3 is, and who asks."""
    s3fs.S3FileSystem.clear_instance_cache()
    for name in (S3_ATTEMPTS_ENV, "AWS_PROFILE", *LOGIN):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**login, "AWS_ENDPOINT_URL": endpoint, "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)


def said(url: str = URL) -> str:
    """What a scan says."""
    with pytest.raises(PlaceError) as failed:
        jetbroker.scan(url, "S")
    assert "\n" not in str(failed.value)
    return str(failed.value)


def test_an_endpoint_that_is_down_is_told_by_a_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = f"http://127.0.0.1:{process.free_port()}"
    use(monkeypatch, endpoint)
    reason = f'Could not connect to the endpoint URL: "{endpoint}/bucket/x/shipped.json"'
    assert said() == f"{URL}/shipped.json: {reason}; {UNREACHABLE}"


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_an_endpoint_that_is_down_is_told_by_every_command(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    use(monkeypatch, f"http://127.0.0.1:{process.free_port()}")
    monkeypatch.setenv(S3_ATTEMPTS_ENV, "1")
    monkeypatch.chdir(tmp_path)
    StreamWriter(tmp_path / "store", "S").close()
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.startswith(f"jetbroker: {URL}/") and ": Could not connect to the endpoint" in err
    assert err.endswith(f"; {UNREACHABLE}\n") and len(err.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_a_server_that_fails_is_asked_a_few_times(refusing: type[Refusing]) -> None:
    assert said() == f"{URL}/shipped.json: Internal Server Error"
    assert refusing.requests == S3_ATTEMPTS


def test_how_often_to_ask_is_for_the_environment_to_say(
    refusing: type[Refusing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(S3_ATTEMPTS_ENV, "1")
    said()
    assert refusing.requests == 1


def test_a_login_that_is_refused_is_told(refusing: type[Refusing], tmp_path: Path, run: Run) -> None:
    refusing.status, refusing.code = 403, "SignatureDoesNotMatch"
    assert said() == f"{URL}/shipped.json: Forbidden; {NO_LOGIN}"
    StreamWriter(tmp_path / "store", "S").close()
    code, _, err = run("ship", tmp_path / "store", URL)
    assert code == 2 and err.endswith(f"; {NO_LOGIN}\n") and len(err.splitlines()) == 1


def test_no_login_at_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, f"http://127.0.0.1:{process.free_port()}", {})
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    assert said() == f"{URL}/shipped.json: Unable to locate credentials; {NO_LOGIN}"
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    s3fs.S3FileSystem.clear_instance_cache()
    assert said().endswith("(nobody) could not be found; correct AWS_PROFILE, or write this profile into ~/.aws/config")


def test_a_bucket_that_is_missing_is_told_from_one_without_a_store(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_server() as environment:
        use(monkeypatch, environment["AWS_ENDPOINT_URL"])
        said_so = "The specified bucket does not exist; make the bucket, or correct the URL"
        assert said("s3://nowhere/x") == f"s3://nowhere/x/manifests: {said_so}"
        with pytest.raises(jetbroker.errors.StoreReadError, match=r"no shipped store \(shipped.json is missing\)"):
            jetbroker.scan(f"s3://{BUCKET}/x", "S")
        StreamWriter(tmp_path / "store", "S").close()
        code, _, err = run("ship", tmp_path / "store", "s3://nowhere/x")
        assert code == 2 and err == f"jetbroker: s3://nowhere/x/shipped.json: {said_so}\n"
