"""The request that opens a WebSocket: answers and log lines are nats-server's, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.support.daemon import Daemon
from tests.support.websocket import DEFLATE, KEY, NO_MASKING, WebsocketClient, request, websocket_port
from tests.websocket.conftest import Pair, StartPair

CONFIG = """
websocket { listen: "127.0.0.1:-1", no_tls: true, compression: true, headers { X-Own: mine } }
"""
SAME = 'websocket { listen: "127.0.0.1:-1", no_tls: true, same_origin: true }'
LISTED = 'websocket { listen: "127.0.0.1:-1", no_tls: true, allowed_origins: ["http://x", "https://y:8443"] }'
BOTH = 'websocket { listen: "127.0.0.1:-1", no_tls: true, same_origin: true, allowed_origins: "http://q" }'

REQUESTS = {
    "right": request(),
    "everything": request(DEFLATE + NO_MASKING),
    "post": request(method="POST"),
    "head": request(method="HEAD"),
    "options": request(method="OPTIONS"),
    "no host": request(Host=None),
    "empty host": request(Host=""),
    "no host, 1.0": request(version="1.0", Host=None),
    "1.0": request(version="1.0"),
    "1.2": request(version="1.2"),
    "2.0": request(version="2.0"),
    "http/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no upgrade": request(Upgrade=None),
    "other upgrade": request(Upgrade="foo"),
    "upgrade among others": request(Upgrade="foo, WebSocket"),
    "no connection": request(Connection=None),
    "connection among others": request(Connection="keep-alive, upgrade"),
    "connection close": request(Connection="close"),
    "no key": request(Sec_WebSocket_Key=None),
    "short key": request(Sec_WebSocket_Key="abc"),
    "key without padding": request(Sec_WebSocket_Key=KEY.rstrip("=")),
    "long key": request(Sec_WebSocket_Key="A" * 44),
    "two keys": request(f"Sec-WebSocket-Key: {KEY}\r\n", Sec_WebSocket_Key="x"),
    "no version": request(Sec_WebSocket_Version=None),
    "version 8": request(Sec_WebSocket_Version="8"),
    "version 8 and 13": request(Sec_WebSocket_Version="8, 13"),
    "path": request(path="/a/b/c?d=e"),
    "leafnode": request(path="/leafnode"),
    "leafnode below": request(path="/a/leafnode?x"),
    "mqtt": request(path="/mqtt"),
    "mqtt, post": request(path="/mqtt", method="POST"),
    "path with dots": request(path="/a/../b?c"),
    "path with slashes": request(path="//a"),
    "path that ends with a slash": request(path="/a/./b/"),
    "star": request(path="*"),
    "absolute": request(path="http://x/y"),
    "half a host": request(path="http://["),
    "half a host, post": request(path="http://[::1/", method="POST"),
    "line feeds only": request().replace(b"\r\n", b"\n"),
    "no blank line in the header": request("Foo bar\r\n"),
    "zero in a header": request("Foo: a\0b\r\n"),
    "two hosts": request("Host: y\r\n"),
    "TLS": b"\x16\x03\x01junk\r\n\r\n",
    "NATS": b"CONNECT {}\r\n",
    "no http": request().replace(b"HTTP", b"HTP"),
    "expect": request("Expect: 100-continue\r\n"),
    "other extension": request("Sec-WebSocket-Extensions: foo\r\n"),
    "deflate among others": request("Sec-WebSocket-Extensions: foo, Permessage-Deflate; client_max_window_bits\r\n"),
    "masking in capitals": request("Nats-No-Masking: TRUE\r\n"),
    "behind a proxy": request("X-Forwarded-For: 1.2.3.4\r\n"),
    "behind two proxies": request("X-Forwarded-For: 1.2.3.4, 5.6.7.8\r\n"),
    "behind a proxy, IPv6": request("X-Forwarded-For: 2001:db8::1\r\n"),
    "data behind it": request() + b"x",
    "a body": request("Content-Length: 3\r\n") + b"abc",
    "a chunked body": request("Transfer-Encoding: chunked\r\n") + b"3\r\nabc\r\n0\r\n\r\n",
}
ORIGINS = (
    "http://x http://x:80 https://x http://X http://y http://x:81 x null http:// http://x:y //x http://a:1:2 /x "
    "http://[::1]:80 HTTP://x https://y:8443 https://y http://q http://127.0.0.1 http://u:p@x http://x/path http://x?q "
    "http://x: file:///a"
).split()


@pytest.fixture(scope="module")
def pair(start_pair: StartPair) -> Pair:
    return start_pair(CONFIG)


@pytest.fixture(scope="module")
def origin_pairs(start_pair: StartPair) -> dict[str, Pair]:
    return {name: start_pair(config) for name, config in (("same", SAME), ("listed", LISTED), ("both", BOTH))}


def answer(daemon: Daemon, sent: bytes) -> tuple[str, str, list[str]]:
    """What a server answers to a request; where it stays open then, also to a wrong one behind it; what it logs."""
    after = len(daemon.log)
    awaited = ""
    with WebsocketClient(websocket_port(daemon)) as client:
        client.send(sent)
        first = client.read_head()
        if b"101" in first and b"/leafnode" not in sent:
            return (
                normalised(first + client.until(b"\r\n")),
                "",
                log_of(daemon, client, after, "Client connection created"),
            )
        if first.startswith(b"HTTP/1.1") and b"101" not in first and b"Connection: close" not in first:
            client.send(request(Connection="close"))
            awaited = "header 'Connection'"
        elif b"/leafnode" in sent:
            awaited = "leaf node"
        elif not first or b"Sec-Websocket-Version" in first:
            awaited = "handshake error"
        rest = client.raw_to_end()
    # the same line for both requests may be there once or twice when it is looked at
    return normalised(first), normalised(rest), list(dict.fromkeys(log_of(daemon, client, after, awaited)))


def normalised(data: bytes) -> str:
    """Without times, and without what INFO says, which tells whether it was compressed."""
    text = re.sub(r"Date: [^\r]*", "Date: D", data.decode("latin-1"))
    if "301 Moved Permanently" in text:  # as Go before 1.26 says it
        text = re.sub(r"Content-Length: (\d+)", lambda found: f"Content-Length: {int(found[1]) + 1}", text)
    text = text.replace("301 Moved Permanently", "307 Temporary Redirect")
    text = text.replace("Moved Permanently</a>", "Temporary Redirect</a>")
    return re.sub(r"(?s)(\x82~..INFO|INFO|\xc2~).*", "INFO", text)


def log_of(daemon: Daemon, client: WebsocketClient, after: int, awaited: str) -> list[str]:
    """The client's log lines without what differs each time, once there is one with `awaited`.

    A server may write the last line of another client meanwhile: lines with another port do not count.
    """

    def own(lines: Sequence[str]) -> list[str]:
        ports = ((line, re.search(r"127\.0\.0\.1:(\d+) - ", line)) for line in lines[after:])
        return [line for line, port in ports if port is None or int(port[1]) == client.port]

    if awaited:
        daemon.wait_until(lambda lines: any(awaited in line for line in own(lines)), awaited)
    found = []
    for line in own(daemon.log):
        text = re.sub(r"^.*?\[(INF|ERR|DBG|WRN)\] ", "", line)
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:P", re.sub(r"wid:\d+", "wid:N", text))
        # what Go says of itself when it answers on a connection it has given away
        if "hijacked" not in text and "connection closed" not in text:
            found.append(text)
    return found


@pytest.mark.differential
@pytest.mark.parametrize("name", REQUESTS)
def test_requests(pair: Pair, name: str) -> None:
    ours, theirs = (answer(daemon, REQUESTS[name]) for daemon in pair)
    assert ours == theirs


@pytest.mark.differential
@pytest.mark.parametrize("name", ["right", "post", "no upgrade", "no key", "NATS", "star"])
def test_requests_byte_by_byte(pair: Pair, name: str) -> None:
    data = REQUESTS[name]
    heads = []
    for daemon in pair:
        with WebsocketClient(websocket_port(daemon)) as client:
            client.send_pieces(data[at : at + 1] for at in range(len(data)))
            heads.append(normalised(client.read_head()))
    assert heads[0] == heads[1]


@pytest.mark.differential
@pytest.mark.parametrize("rules", ["same", "listed", "both"])
@pytest.mark.parametrize("host", ["x", "127.0.0.1:4222"])
def test_origins(origin_pairs: dict[str, Pair], rules: str, host: str) -> None:
    answers = []
    for daemon in origin_pairs[rules]:
        found = {origin: answer(daemon, request(f"Origin: {origin}\r\n", Host=host)) for origin in ORIGINS}
        found["none"] = answer(daemon, request(Host=host))
        found["empty"] = answer(daemon, request("Origin: \r\n", Host=host))
        found["old header"] = answer(daemon, request("Sec-WebSocket-Origin: http://z\r\n", Host=host))
        answers.append(found)
    assert answers[0] == answers[1]


@pytest.mark.differential
@pytest.mark.parametrize("body", [b"", b"abc"])
def test_a_right_request_behind_one_that_was_refused(pair: Pair, body: bytes) -> None:
    heads = []
    for daemon in pair:
        with WebsocketClient(websocket_port(daemon)) as client:
            client.send(request(f"Content-Length: {len(body)}\r\n", Upgrade=None) + body + request())
            first, second = client.read_head(), client.read_head()
            assert client.until(b"\r\n").startswith(b"INFO")
            heads.append((normalised(first), normalised(second)))
    assert heads[0] == heads[1]


def test_headers_are_bounded(pair: Pair) -> None:
    with WebsocketClient(websocket_port(pair[0])) as client:
        client.send(b"GET / HTTP/1.1\r\nX: " + b"a" * 15_000)
        client.send(b"b" * 2000)
        assert client.read_head().startswith(b"HTTP/1.1 431 Request Header Fields Too Large")


def test_a_body_that_does_not_end_is_cut_off(pair: Pair) -> None:
    with WebsocketClient(websocket_port(pair[0])) as client:
        client.send(request("Content-Length: 1000000\r\n", Upgrade=None))
        assert client.read_head().startswith(b"HTTP/1.1 400")
        client.send(b"x" * 100_000)
        client.raw_to_end()
        assert client.closed
