"""`jetbroker top`: for scripts, in a terminal, of brokers that are there, that are gone, and that are none."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from select import select
from typing import Any, NamedTuple

import nats
import pytest
from nats.js.api import ConsumerConfig, StreamConfig

from jetbroker.daemon import cli
from jetbroker.daemon.top import screen
from jetbroker.daemon.top.asking import Answers
from jetbroker.daemon.top.figures import figures_of
from jetbroker.daemon.top.screen import View
from tests.support.certificates import make
from tests.support.http import monitor_port
from tests.support.process import ROOT, ServerProcess, find_nats_server, free_port, jetbroker

TIMEOUT_S = 60.0
TOP = (sys.executable, "-m", "jetbroker", "top")
CONFIG = """
http: "127.0.0.1:-1"
server_name: "shop"
accounts { $SYS { users: [ { user: admin, password: "s3cret" } ] } }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """With a stream ORDERS of 20 messages, and a consumer that has taken none."""
    folder = tmp_path_factory.mktemp("top")
    config = folder / "broker.conf"
    config.write_text(f'{CONFIG}\njetstream {{ store_dir: "{folder}/store" }}')
    with jetbroker("-c", str(config)) as running:
        asyncio.run(fill(running.url))
        yield running


async def fill(url: str) -> None:
    client = await nats.connect(url, allow_reconnect=False)
    js = client.jetstream()
    await js.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    await js.add_consumer("ORDERS", ConsumerConfig(durable_name="billing"))
    for _ in range(20):
        await js.publish("orders.eu", b"x")
    await client.close()


def url_of(server: ServerProcess) -> str:
    return f"http://127.0.0.1:{monitor_port(server)}"


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def top(*words: str) -> Done:
    """The command, in this process: its start would take longer than all of it."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(["top", *words])
        except SystemExit as end:  # argparse's
            code = int(end.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


# --- for scripts ---


def test_once_prints_all_tables(server: ServerProcess) -> None:
    done = top(url_of(server), "--once", "--interval", "0.1", "--table", "consumers")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("shop  jetbroker ")
    assert "No problems" in done.stdout and "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines if ", by " in line] == ["1", "1", "0"]
    assert any(line.split() == ["billing", "ORDERS", "$G", "20", "20", "0", "0", "0"] for line in lines)


def test_json_is_an_object_for_each_look(server: ServerProcess) -> None:
    done = top(url_of(server), "--once", "--json", "--interval", "0.1")
    found = json.loads(done.stdout)
    assert (done.returncode, found["server"]["name"], found["server"]["messages"]) == (0, "shop", 20)
    assert found["server"]["in_msgs_rate"] == 0.0
    stream = {"account": "$G", "name": "ORDERS", "messages": 20, "last_seq": 20, "consumers": 1, "rate": 0.0}
    assert stream.items() <= found["streams"][0].items()
    assert found["consumers"][0]["lag"] == 20


def test_over_nats_as_a_user_of_the_system_account(server: ServerProcess) -> None:
    url = server.url.replace("//", "//admin:s3cret@")
    found = json.loads(top(url, "--once", "--json", "--interval", "0.1").stdout)
    assert (found["server"]["name"], found["streams"][0]["name"]) == ("shop", "ORDERS")
    done = top(server.url, "--once")
    assert (done.returncode, "a user of the system account is needed" in done.stderr) == (1, True)
    done = top(server.url.replace("//", "//admin:wrong@"), "--once")
    assert (done.returncode, "Traceback" in done.stderr, "wrong" in done.stderr) == (1, False, False)


def test_over_https_with_a_base_path(tmp_path: Path) -> None:
    certificates, port = make(tmp_path), free_port()
    config = tmp_path / "broker.conf"
    config.write_text(f'https: "127.0.0.1:{port}"\nhttp_base_path: "/x"\n{certificates.tls_block()}')
    with jetbroker("-c", str(config)):
        url, authority = f"https://127.0.0.1:{port}/x", str(certificates.ca.cert)
        found = json.loads(top(url, "--once", "--json", "--interval", "0.1", "--tlsca", authority).stdout)
        assert found["server"]["health"] == "ok"
        done = top(url, "--once")
        assert (done.returncode, "cannot be trusted" in done.stderr, "--tlsca" in done.stderr) == (1, True, True)
        for wrong in (str(config), str(tmp_path / "nothing.pem")):
            done = top(url, "--once", "--tlsca", wrong)
            assert (done.returncode, "is no file of an authority" in done.stderr) == (1, True)


@pytest.mark.skipif(find_nats_server() is None, reason="there is no nats-server")
def test_nats_server_is_understood(tmp_path: Path) -> None:
    arguments = ("-js", "-sd", str(tmp_path), "-m", str(port := free_port()))
    with ServerProcess([str(find_nats_server())], arguments) as running:
        asyncio.run(fill(running.url))
        found = json.loads(top(f"http://127.0.0.1:{port}", "--once", "--json", "--interval", "0.1").stdout)
    assert found["server"]["version"].startswith("nats-server 2.")
    assert (found["streams"][0]["messages"], found["consumers"][0]["lag"]) == (20, 20)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://127.0.0.1:{free}", "does not answer: Connection refused. Is it running, with a monitoring port"),
        ("127.0.0.1:{free}", "does not answer: Connection refused"),
        ("http://127.0.0.1:{client}", "is no monitoring port: it does not speak HTTP."),
        ("http://127.0.0.1:{monitor}/base", "is no monitoring port, or it has another base path: status 404"),
        ("nats://127.0.0.1:{free}", "Connection refused"),
        ("ftp://host", "is no URL: http://host:8222 of the monitoring port"),
        ("http://user:pa55@[::1", "is no URL: http://host:8222 of the monitoring port"),
        ("http://host:port", "is no URL: http://host:8222 of the monitoring port"),
        ("http://a..b", "is no URL: http://host:8222 of the monitoring port"),
        ("nats://a..b", "is no URL: http://host:8222 of the monitoring port"),
    ],
)
def test_a_server_that_does_not_answer_is_told_in_a_sentence(server: ServerProcess, url: str, says: str) -> None:
    done = top(url.format(free=free_port(), client=server.port, monitor=monitor_port(server)), "--once")
    assert (done.returncode, done.stdout) == (1, "")
    assert says in done.stderr and done.stderr.count("\n") == 1 and "pa55" not in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "this is no terminal: use --once or --json"),
        (("--once", "--sort", "nothing"), "streams are sorted by stream, msgs/s, messages"),
        (("--once", "--table", "nothing"), "invalid choice"),
        (("--once", "--interval", "0"), "from 0.1 to 3600 seconds"),
        (("--once", "--interval", "nan"), "from 0.1 to 3600 seconds"),
    ],
)
def test_wrong_usage_ends_with_exit_code_2(words: tuple[str, ...], says: str) -> None:
    done = top(*words)
    assert (done.returncode, says in done.stderr, "Traceback" in done.stderr) == (2, True, False)


# --- what servers say ---


class Liar(BaseHTTPRequestHandler):
    """Answers with what `answer` says."""

    answer: Callable[[str], bytes]

    def do_GET(self) -> None:
        body = type(self).answer(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def answering(answer: Callable[[str], bytes]) -> Iterator[str]:
    handler = type("Handler", (Liar,), {"answer": staticmethod(answer)})
    with HTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


def test_names_do_nothing_to_the_terminal() -> None:
    evil = "[red]\x1b]0;owned\x07\x9b2J\r\nX"
    stream = {"name": evil, "state": {}, "consumer_detail": [{"name": evil, "stream_name": evil}]}
    body = json.dumps(
        {
            "server_name": evil,
            "version": evil,
            "uptime": evil,
            "account_details": [{"name": evil, "stream_detail": [stream]}],
            "connections": [{"name": evil, "ip": evil}],
            "status": evil,
            "error": evil,
        }
    ).encode()
    with answering(lambda path: body) as url:
        done = top(url, "--once", "--interval", "0.1")
    assert done.returncode == 0
    assert not set("\x1b\x07\x9b\r") & set(done.stdout)
    assert "[red]\\x1b]0;owned\\x07" in done.stdout


@pytest.mark.parametrize("body", [b"", b"[]", b"[" * 100_000, b"\xff", b'"x"'])
def test_answers_that_are_none(body: bytes) -> None:
    with answering(lambda path: body) as url:
        done = top(url, "--once")
    assert (done.returncode, "its answer is no JSON object" in done.stderr) == (1, True)


def test_values_of_other_types_count_as_nothing() -> None:
    values: list[Any] = [None, True, "x", 1.5, -1, [1], {"a": 1}, 10**400, [[]], [{}]]
    for value in values:
        fields = dict.fromkeys(
            ("server_name", "cpu", "mem", "connections", "account_details", "status", "damaged", "offline"), value
        )
        row = {"name": value, "state": value, "consumer_detail": [{"delivered": value, "num_pending": value}]}
        nested = {"account_details": [{"stream_detail": [row], "name": value}], "streams": value}
        for answers in (Answers(fields, fields, fields, fields), Answers(fields, fields, nested, {})):
            before = figures_of(answers, 1.0, None)
            figures = figures_of(answers, 2.0, before)
            for table in screen.TABLES:
                view = View()
                view.show(table)
                screen.whole(figures, view, 24)
            json.dumps(figures.to_json())


def test_orders_go_round_and_the_offset_stays_in_the_table() -> None:
    streams = [{"name": f"S{at:02}", "state": {"messages": at % 3, "last_seq": at}} for at in range(40)]
    figures = figures_of(Answers({}, {}, {"account_details": [{"stream_detail": streams}]}, {}), 1.0, None)
    view = View()
    view.sort("MESSAGES")
    assert [row.messages for row in screen.sorted_rows(figures, view)[:14]] == [2] * 13 + [1]
    view.scroll(1000)
    screen.table_of(figures, view, 15)
    assert view.offset == 25
    view.scroll(-1000)
    assert view.offset == 0
    titles = []
    for _ in screen.orders("streams"):
        view.next_order()
        titles.append(view.order)
    assert sorted(titles) == sorted(screen.orders("streams")) and view.order == "Messages"


# --- in a terminal ---


class Screen:
    """`jetbroker top` at a terminal of 100 columns and 30 lines."""

    def __init__(self, *words: str) -> None:
        self.master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.slave, (30, 100))
        self.before = termios.tcgetattr(self.slave)
        environment = {**os.environ, "TERM": "xterm-256color"}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [*TOP, *words], cwd=ROOT, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=environment,
            start_new_session=True,
        )  # fmt: skip
        self.seen = b""

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def press(self, key: bytes, until: bytes) -> None:
        """A key, and what comes after it, up to this."""
        self.seen = b""
        os.write(self.master, key)
        self.until(until)

    def until(self, text: bytes) -> None:
        """Read until this is on the screen."""
        while text not in self.seen:
            assert self._read(), f"{text!r} is not in {self.seen[-2000:]!r}"

    def _read(self) -> bool:
        ready, _, _ = select([self.master], [], [], TIMEOUT_S)
        if not ready:
            return False
        try:
            self.seen += os.read(self.master, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        return True

    def ended(self) -> int:
        """Its exit code; the terminal is as it was."""
        self.until(b"\x1b[?1049l")
        code = self.process.wait(TIMEOUT_S)
        while select([self.master], [], [], 0)[0] and self._read():
            pass
        assert b"\x1b[?25h" in self.seen
        assert termios.tcgetattr(self.slave) == self.before
        return code


def test_keys_change_what_is_seen(server: ServerProcess) -> None:
    with Screen(url_of(server), "--interval", "0.2") as shown:
        shown.until(b"\x1b[?1049h")
        shown.until(b"ORDERS")
        assert b"shop" in shown.seen and b"1 streams, by msgs/s" in shown.seen
        shown.press(b"c", b"1 consumers, by lag")
        shown.until(b"billing")
        shown.press(b"o", b"1 consumers, by pending")
        shown.press(b"n", b"0 connections, by msgs/s")
        shown.press(b" ", b"PAUSED")
        shown.press(b"s", b"1 streams")
        shown.press(b"\x1b[B", b"ORDERS")
        shown.press(b"q", b"\x1b[?1049l")
        assert shown.ended() == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_signals_give_the_terminal_back(server: ServerProcess, number: signal.Signals, code: int) -> None:
    with Screen(url_of(server), "--interval", "3600") as shown:
        shown.until(b"ORDERS")
        shown.process.send_signal(number)
        assert shown.ended() == code


def test_a_terminal_that_goes_away_ends_it(server: ServerProcess) -> None:
    with Screen(url_of(server), "--interval", "0.1") as shown:
        shown.until(b"ORDERS")
        os.close(shown.slave)
        os.close(shown.master)
        try:
            assert shown.process.wait(TIMEOUT_S) in (0, 129)
        finally:
            shown.master, shown.slave = pty.openpty()  # to be closed


def test_a_server_that_goes_away_is_told_and_found_again(tmp_path: Path) -> None:
    port = free_port()
    arguments = ("-m", str(port))
    with jetbroker(*arguments) as first, Screen(f"127.0.0.1:{port}", "--interval", "0.1") as shown:
        shown.until(b"No problems")
        first.stop()
        shown.seen = b""
        shown.until(b"does not answer")
        with jetbroker(*arguments):
            shown.seen = b""
            while b"does not answer" in shown.seen or b"No problems" not in shown.seen:
                shown.seen = b""
                shown.until(b"q quit")
            shown.press(b"q", b"\x1b[?1049l")
            assert shown.ended() == 0
