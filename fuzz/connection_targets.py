"""Targets around connections: WebSocket frames and upgrades, PROXY headers, nkeys, subject transforms."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator
from random import Random

from websockets.frames import Frame, Opcode

from fuzz import generate
from fuzz.checks import Target, require
from jetbroker.auth.nkeys import decode_signature
from jetbroker.config import nkeys
from jetbroker.config.options import WebsocketOptions
from jetbroker.connections.frames import FrameError, FrameReader, Inflater, close_answer
from jetbroker.connections.http_upgrade import UpgradeRequests
from jetbroker.connections.proxy_header import ProxyHeader, ProxyHeaderError
from jetbroker.connections.upgrade import UpgradeRules
from jetbroker.routing.mapping import Mappings
from jetbroker.routing.placeholders import TransformError
from jetbroker.routing.transform import Transform

MESSAGE_BYTES = 1000  # a compressed message may inflate to
SPLITS = 24  # places at which longer input is cut in two


def _ways(data: bytes) -> Iterator[list[bytes]]:
    """Byte by byte, and cut in two at some places."""
    yield [data[at : at + 1] for at in range(len(data))]
    for at in range(1, len(data), 1 + len(data) // SPLITS):
        yield [data[:at], data[at:]]


def _same_however_cut(answer: Callable[[list[bytes]], object], data: bytes) -> None:
    whole = answer([data])
    for pieces in _ways(data):
        cut = answer(pieces)
        require(cut == whole, "whole", whole, "cut", [len(piece) for piece in pieces], cut)


# --- WebSocket frames: the first byte chooses what was agreed on, the rest is what the client sends ---


def _frames_input(random: Random) -> bytes:
    frames = [bytes([random.choice((0, 1, 2, 3))])]
    for _ in range(random.randint(1, 5)):
        opcode = random.choice((0, 1, 2, 2, 2, 8, 9, 10, random.randrange(16)))
        data = random.randbytes(random.choice((0, 1, 2, 20, 125, 126, 200)))
        first = opcode | random.choice((0x80, 0x80, 0x80, 0)) | random.choice((0, 0, 0, 0x40, 0x20, 0x10))
        if first & 0x40:
            deflater = zlib.compressobj(wbits=-15)
            data = deflater.compress(data * random.choice((1, 20))) + deflater.flush(zlib.Z_SYNC_FLUSH)
            data = data.removesuffix(b"\0\0\xff\xff")
        masked = random.random() < 0.8
        size, more = len(data), b""
        if size > 125 or random.random() < 0.05:
            size, more = random.choice(((126, size.to_bytes(2, "big")), (127, size.to_bytes(8, "big"))))
        frames.append(bytes([first, size | 0x80 * masked]) + more + (random.randbytes(4) if masked else b"") + data)
    data = b"".join(frames)
    return generate.mutate(random, data) if random.random() < 0.3 else data


class _FrameAnswer:
    """What a connection makes of frames: messages with their bytes put together, control frames, an error."""

    def __init__(self, masked: bool, compressed: bool) -> None:
        self.reader = FrameReader(masked=masked, compressed=compressed)
        self.inflater: Inflater | None = None
        self.events: list[object] = []
        self.message = b""

    def feed(self, data: bytes) -> None:
        self.reader.feed(data)
        while (frame := self.reader.next()) is not None:
            if frame.opcode >= Opcode.CLOSE:
                data = bytes(frame.data)
                self.events.append((int(frame.opcode), close_answer(data) if frame.opcode == Opcode.CLOSE else data))
            else:
                self.take(frame)

    def take(self, frame: Frame) -> None:
        if frame.opcode != Opcode.CONT:
            self.inflater = Inflater(MESSAGE_BYTES) if self.reader.inflate else None
        if self.inflater is None:
            self.message += bytes(frame.data)
        else:
            self.inflater.add(bytes(frame.data), last=frame.fin)
            while not self.inflater.hungry:
                self.message += self.inflater.read()
            require(self.inflater.inflated_bytes <= MESSAGE_BYTES, "inflated", self.inflater.inflated_bytes)
        if frame.fin:
            self.events.append(self.message)
            self.message = b""


def _frames_answer(masked: bool, compressed: bool, pieces: list[bytes]) -> object:
    answer = _FrameAnswer(masked, compressed)
    try:
        for piece in pieces:
            answer.feed(piece)
    except FrameError as error:
        return answer.events, error.text, error.code
    return answer.events, answer.message, answer.reader.held_bytes


def check_frames(data: bytes) -> None:
    """Cut anywhere: the same messages, the same error."""
    choice = data[0] if data else 0
    _same_however_cut(functools.partial(_frames_answer, choice & 1 == 0, choice & 2 == 0), data[1:])


# --- WebSocket upgrades ---

_REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: %b\r\n"
_HTTP_WORDS = (
    *(b"Sec-WebSocket-Version: 13\r\n", b"Sec-WebSocket-Extensions: permessage-deflate\r\n", b"Origin: http://x\r\n"),
    *(
        b"Cookie: a=b; jwt=c\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Nats-No-Masking: true\r\n",
    ),
    *(
        b"X-Forwarded-For: 1.2.3.4\r\n",
        b"User-Agent: Mozilla/5\r\n",
        b"Expect: 100-continue\r\n",
        b"\r\n",
        b"\r\n",
        b"a: b\n",
    ),
    *(
        b"POST / HTTP/1.0\r\n",
        b"GET /a/../b HTTP/1.1\r\n",
        b"GET * HTTP/1.1\r\n",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"\x00",
        b" ",
    ),
)


def _upgrade_input(random: Random) -> bytes:
    key = random.choice((b"dGhlIHNhbXBsZSBub25jZQ==", b"x", b"", b"dGhlIHNhbXBsZSBub25jZQ="))
    data = _REQUEST % key + generate.words(random, _HTTP_WORDS, 6) + random.choice((b"\r\n", b"\r\n", b""))
    return generate.mutate(random, data) if random.random() < 0.5 else data


@functools.cache
def _rules() -> UpgradeRules:
    return UpgradeRules(WebsocketOptions(same_origin=True, compression=True, jwt_cookie="jwt"), secure=False)


def check_upgrade(data: bytes) -> None:
    """Any bytes lead to an answer, an end, or waiting for more; never to both an upgrade and a refusal."""
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        requests = UpgradeRequests(_rules())
        for piece in pieces:
            if not requests.finished:
                requests.feed(piece)
        accepted = b"101 Switching" in requests.output
        require(accepted == (requests.upgrade is not None and requests.finished), "upgrade", requests.output)


# --- PROXY headers ---

_PROXY_WORDS = (
    *(b"PROXY ", b"TCP4 ", b"TCP6 ", b"UNKNOWN", b"1.2.3.4 ", b"::1 ", b"::ffff:1.2.3.4 ", b"80 ", b"65536 ", b"443"),
    *(
        b"\r\n",
        b"\r\n\r\n\x00\r\nQUIT\n",
        b"\x21\x11\x00\x0c",
        b"\x21\x21\x00\x24",
        b"\x20\x00\x00\x00",
        b"\x21\x11\x00\x0f",
    ),
    *(b"\x01\x02\x03\x04\x05\x06\x07\x08\x00\x50\x01\xbb", b"\x00" * 32, b" ", b"x" * 90, b"CONNECT {}\r\n"),
)


def _proxy_input(random: Random) -> bytes:
    start = random.choice((b"PROXY ", b"PROXY TCP4 1.2.3.4 5.6.7.8 80 443\r\n", b"\r\n\r\n\x00\r\nQUIT\n", b""))
    data = start + generate.words(random, _PROXY_WORDS, 6)
    return generate.mutate(random, data) if random.random() < 0.4 else data


def _proxy_answer(pieces: list[bytes]) -> object:
    header = ProxyHeader()
    rest = b""
    for piece in pieces:
        if header.finished:
            rest += piece
            continue
        try:
            header.feed(piece)
        except ProxyHeaderError as error:
            return str(error)
    if not header.finished:
        return header.cut("EOF", at_end=True)
    return header.found, header.address, header.rest + rest


def check_proxy(data: bytes) -> None:
    """Cut anywhere: the same address, the same rest, the same error."""
    _same_however_cut(_proxy_answer, data)


# --- nkeys: a key, a blank, a signature ---


def _nkeys_input(random: Random) -> bytes:
    kind = random.choice((nkeys.USER, nkeys.ACCOUNT, nkeys.SERVER, nkeys.CURVE))
    data = nkeys.encode(kind, random.randbytes(32)).encode() + b" "
    letters = b"ABab01-_+/==\r\n"
    data += bytes(random.choices(letters[: random.choice((8, 10, 14))], k=random.choice((0, 4, 86, 87, 88))))
    return generate.mutate(random, data) if random.random() < 0.6 else data


def check_nkeys(data: bytes) -> None:
    """What is taken as a key is written in exactly one way; signatures decode or do not."""
    key, _, signature = data.decode("latin-1").partition(" ")
    decoded = nkeys.decode(nkeys.USER, key)
    require(decoded is None or nkeys.encode(nkeys.USER, decoded) == key, "key", key)
    raw = decode_signature(signature)
    require(raw is None or len(raw) <= max(nkeys.SIGNATURE_BYTES, len(signature)), "signature", signature)


# --- subject transforms: source, destination and subject, divided by blanks ---

_TRANSFORM_WORDS = (
    *(
        b"a",
        b"b",
        b".",
        b".",
        b".",
        b"*",
        b">",
        b"$1",
        b"$2",
        b"{{wildcard(1)}}",
        b"{{Wildcard( 2 )}}",
        b"a-b-c",
        b"\xff",
    ),
    *(
        b"{{partition(5,1)}}",
        b"{{partition(10)}}",
        b"{{split(1,-)}}",
        b"{{SplitFromLeft(1,2)}}",
        b"{{splitfromright(1,1)}}",
    ),
    *(b"{{SliceFromLeft(1,2)}}", b"{{slicefromright(1,3)}}", b"{{left(1,1)}}", b"{{right(1,2)}}", b"{{random(3)}}"),
    *(b"{{", b"}}", b"(", b")", b",", b"0", b"99999999999", b"-1", b"foobarbaz", b".*", b".*.", b".>"),
)


def _transform_input(random: Random) -> bytes:
    if random.random() < 0.5:
        return b" ".join(generate.words(random, _TRANSFORM_WORDS, most) for most in (5, 6, 7))
    return b"a.*.* " + b"b." + generate.words(random, _TRANSFORM_WORDS, 4) + b" a.foo-bar.b" + random.randbytes(2)


def check_transform(data: bytes) -> None:
    """A transform is refused or gives a subject; mappings made of it do as it does."""
    source, _, behind = data.partition(b" ")
    destination, _, subject = behind.partition(b" ")
    if not source or not destination or not subject:
        return
    try:
        transform = Transform(source, destination)
    except TransformError as error:
        require(bool(str(error)), "an error without a text")
        return
    result = transform.transform(subject)
    require(result is None or isinstance(result, bytes), "result", result)
    try:
        mappings = Mappings([(source, [(destination, 100, "")])])
    except TransformError:
        return
    mapped = mappings.mapped(subject)
    require(transform.is_random or mapped in (None, b"", result), "mapped", mapped, "transformed", result)


TARGETS = (
    Target("websocket", _frames_input, check_frames),
    Target("upgrade", _upgrade_input, check_upgrade),
    Target("proxy", _proxy_input, check_proxy),
    Target("nkeys", _nkeys_input, check_nkeys),
    Target("transform", _transform_input, check_transform),
)
