"""WebSocket frames without sockets: bytes in, frames out, and the way back. Framing and masking by `websockets`.

nats-server's rules are checked on the first two bytes of a frame, in its order and with its texts; the library then
reads a frame that is right. It holds a frame until that is whole, so long ones are taken apart before: they come out as
fragments. Compressed messages are inflated piece by piece (:class:`Inflater`). So little is held for a client, whatever
it sends.
"""

import zlib
from collections.abc import Generator, Iterator
from dataclasses import replace

from websockets.extensions.base import Extension
from websockets.frames import Close, CloseCode, Frame, Opcode
from websockets.streams import StreamReader
from websockets.typing import ExtensionName

from jetbroker import limits
from jetbroker.connections.upgrade import DEFLATE, Upgrade

try:
    from websockets.speedups import apply_mask
except ImportError:  # no compiled part on this platform
    from websockets.utils import apply_mask

CONTROL_BYTES = 125  # the most a control frame may carry
_FINAL, _COMPRESSED, _RESERVED, _MASKED = 0x80, 0x40, 0x30, 0x80
_END_OF_MESSAGE = b"\x00\x00\xff\xff"  # what a sender of compressed messages leaves out
_SMALL_MESSAGE_BYTES = 4096  # compressed with little memory
_EXTENDED_BYTES = {126: 2, 127: 8}  # of the length, by what stands for it
_KEY_BYTES = 4
_OPCODES = {int(opcode) for opcode in Opcode}

_POLICY = (
    "Authentication Timeout",
    "Authentication Failure",
    "Slow Consumer (Pending Bytes)",
    "Slow Consumer (Write Deadline)",
    "Maximum Account Connections Exceeded",
    "Maximum Connections Exceeded",
    "Maximum Control Line Exceeded",
    "Maximum Subscriptions Exceeded",
    "Missing Account",
    "Authentication Expired",
    "Credentials Revoked",
)
_CODES = {
    "Client Closed": CloseCode.NORMAL_CLOSURE,
    **dict.fromkeys(_POLICY, CloseCode.POLICY_VIOLATION),
    **dict.fromkeys(("Parse Error", "Protocol Violation", "Bad Client Protocol Version"), CloseCode.PROTOCOL_ERROR),
    "Maximum Message Payload Exceeded": CloseCode.MESSAGE_TOO_BIG,
    **dict.fromkeys(("Write Error", "Read Error", "Stale Connection", "Server Shutdown"), CloseCode.GOING_AWAY),
}


class FrameError(Exception):
    """The client's frames are wrong: the connection ends with this close code and text."""

    def __init__(self, text: str, code: CloseCode = CloseCode.PROTOCOL_ERROR) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class _Mark(Extension):
    """Lets the library pass frames of compressed messages as they are."""

    name = ExtensionName(DEFLATE)

    def __init__(self) -> None:
        self.compressed = False  # the frame that was read last begins a compressed message

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        """Take the mark off."""
        self.compressed = frame.rsv1
        return replace(frame, rsv1=False) if frame.rsv1 else frame

    def encode(self, frame: Frame) -> Frame:
        """Put the mark on."""
        return replace(frame, rsv1=True)


class LongFrame:
    """A frame on its way that is too long to be held."""

    def __init__(self, first: int, size: int, key: bytes) -> None:
        """`first`: the byte it began with; `key` masks it, empty: nothing does."""
        self.rest = size
        self._opcode = Opcode(first & 0x0F)
        self._final = bool(first & _FINAL)
        self._key = key

    def fragment(self, data: bytes) -> Frame:
        """The next bytes of it, as a fragment of its message."""
        self.rest -= len(data)
        if self._key:
            data = apply_mask(data, self._key)
            turned = len(data) % len(self._key)
            self._key = self._key[turned:] + self._key[:turned]
        frame = Frame(self._opcode, data, self._final and not self.rest)
        self._opcode = Opcode.CONT
        return frame


class FrameReader:
    """The frames of a client, one after the other."""

    def __init__(self, *, masked: bool, compressed: bool) -> None:
        """`masked`: the client has to mask; `compressed`: it may compress."""
        self._stream = StreamReader()
        self._mark = _Mark()
        self._masked = masked
        self._may_compress = compressed
        self._reading: Generator[None, None, Frame] | None = None
        self._long: LongFrame | None = None
        self._in_message = False
        self._checked = False  # the first two bytes of the next frame are right
        self.inflate = False  # the message that the last data frame belongs to is compressed

    @property
    def held_bytes(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._stream.buffer)

    def feed(self, data: bytes) -> None:
        """More bytes of the client."""
        self._stream.feed_data(data)

    def release(self) -> None:
        """Give back what is held: nothing more is read."""
        self._stream = StreamReader()
        self._reading = self._long = None

    def next(self) -> Frame | None:
        """The next frame, or fragment of a long one; None before it is whole. Raises FrameError."""
        if self._long is None and self._reading is None and not self._begin():
            return None
        frame = self._whole() if self._long is None else self._piece(self._long)
        if frame is not None and frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self.inflate = self._mark.compressed
        return frame

    def _begin(self) -> bool:
        """Look at a frame's header; False before it is whole."""
        buffer = self._stream.buffer
        if len(buffer) < 2:
            return False
        if not self._checked:
            self._check(buffer[0], buffer[1])
            self._checked = True
        size = buffer[1] & 0x7F
        extended = _EXTENDED_BYTES.get(size, 0)
        if len(buffer) < 2 + extended:
            return False
        if extended:
            size = int.from_bytes(buffer[2 : 2 + extended], "big")
        if size >> 63:
            raise FrameError("invalid 64-bit payload length")
        masked = bool(buffer[1] & _MASKED)
        if size <= limits.WEBSOCKET_PIECE_BYTES:
            self._reading = Frame.parse(self._stream.read_exact, mask=masked, extensions=[self._mark])
        else:
            header = 2 + extended + _KEY_BYTES * masked
            if len(buffer) < header:
                return False
            self._long = LongFrame(buffer[0], size, bytes(buffer[2 + extended : header]))
            self._mark.compressed = bool(buffer[0] & _COMPRESSED)
            del buffer[:header]
        self._checked = False
        return True

    def _whole(self) -> Frame | None:
        """A frame that the library reads."""
        try:
            next(self._reading or iter(()))
        except StopIteration as whole:
            self._reading = None
            frame: Frame = whole.value
            return frame
        return None

    def _piece(self, long: "LongFrame") -> Frame | None:
        """What is there of a long frame."""
        size = min(len(self._stream.buffer), limits.WEBSOCKET_PIECE_BYTES, long.rest)
        if not size:
            return None
        data = bytes(self._stream.buffer[:size])
        del self._stream.buffer[:size]
        frame = long.fragment(data)
        if not long.rest:
            self._long = None
        return frame

    def _check(self, first: int, second: int) -> None:
        """The rules for a frame's first two bytes."""
        opcode = first & 0x0F
        compressed, final, masked = bool(first & _COMPRESSED), bool(first & _FINAL), bool(second & _MASKED)
        if first & _RESERVED:
            raise FrameError("RSV2 and RSV3 must be clear")
        if compressed and not self._may_compress:
            raise FrameError("compressed frame received without negotiated permessage-deflate")
        if self._masked and not masked:
            raise FrameError("mask bit missing")
        if opcode not in _OPCODES:
            raise FrameError(f"unknown opcode {opcode}")
        if opcode >= Opcode.CLOSE:
            self._check_control(second & 0x7F, final=final, compressed=compressed)
        elif opcode == Opcode.CONT:
            if not self._in_message or compressed:
                raise FrameError("invalid continuation frame")
            self._in_message = not final
        else:
            if self._in_message:
                raise FrameError("new message started before final frame for previous message was received")
            self._in_message = not final

    def _check_control(self, size: int, *, final: bool, compressed: bool) -> None:
        if size > CONTROL_BYTES:
            raise FrameError(f"control frame length bigger than maximum allowed of {CONTROL_BYTES} bytes")
        if not final:
            raise FrameError("control frame does not have final bit set")
        if compressed:
            raise FrameError("control frame must not be compressed")


class Inflater:
    """One compressed message, a piece at a time; its fragments are added as they come."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: the most the message may inflate to, and the most its fragments may have together."""
        self._inflate = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        self._input = memoryview(b"")
        self._max_bytes = max_bytes
        self._in_bytes = 0
        self.inflated_bytes = 0
        self._last = False  # no more fragments come
        self._full = False  # the last piece was as long as a piece can be: more may be behind it

    @property
    def hungry(self) -> bool:
        """Nothing more comes out before the next fragment."""
        return not self._input and not self._full

    @property
    def finished(self) -> bool:
        """The whole message was read."""
        return self._last and self.hungry

    def add(self, data: bytes, *, last: bool) -> None:
        """A fragment. Raises FrameError."""
        self._in_bytes += len(data)
        if self._in_bytes > self._max_bytes:
            raise FrameError("maximum payload exceeded", CloseCode.MESSAGE_TOO_BIG)
        self._last = last
        if not self._inflate.eof:  # what follows the end is nothing to anybody
            self._input = memoryview(data + _END_OF_MESSAGE if last else data)

    def read(self) -> bytes:
        """The next piece, maybe empty. Raises FrameError."""
        data = self._inflate.unconsumed_tail
        if not data:
            data = bytes(self._input[: limits.WEBSOCKET_PIECE_BYTES])
            self._input = self._input[limits.WEBSOCKET_PIECE_BYTES :]
        try:
            piece = self._inflate.decompress(data, limits.WEBSOCKET_PIECE_BYTES)
        except zlib.error as error:
            raise FrameError(f"flate: corrupt input: {error}") from None
        self._full = len(piece) == limits.WEBSOCKET_PIECE_BYTES or bool(self._inflate.unconsumed_tail)
        if self._inflate.eof:
            self._input = memoryview(b"")
            self._full = False
        self.inflated_bytes += len(piece)
        if self.inflated_bytes > self._max_bytes:
            raise FrameError("maximum payload exceeded", CloseCode.MESSAGE_TOO_BIG)
        return piece


class FrameWriter:
    """What goes to the other side, as frames."""

    def __init__(self, upgrade: Upgrade) -> None:
        self._compressed = upgrade.compressed
        self._frame_bytes = limits.WEBSOCKET_BROWSER_FRAME_BYTES if upgrade.browser else 0
        self._masks = upgrade.masks
        self._compressed_frame_bytes = 0 if upgrade.whole_when_compressed else self._frame_bytes
        self._mark = _Mark()

    def message(self, data: bytes) -> bytes:
        """The frames of protocol bytes."""
        if self._compressed and len(data) > limits.WEBSOCKET_COMPRESSED_BYTES:
            return b"".join(self._compressed_frames(_deflate(data)))
        size = self._frame_bytes or len(data)
        pieces = (data[at : at + size] for at in range(0, len(data), size))
        return b"".join(Frame(Opcode.BINARY, piece).serialize(mask=self._masks) for piece in pieces)

    def _compressed_frames(self, data: bytes) -> Iterator[bytes]:
        """Fragments of one message: only the first is marked."""
        size = self._compressed_frame_bytes or len(data)
        for at in range(0, len(data), size):
            opcode = Opcode.CONT if at else Opcode.BINARY
            frame = Frame(opcode, data[at : at + size], fin=at + size >= len(data))
            yield frame.serialize(mask=self._masks, extensions=[] if at else [self._mark])


def pong(data: bytes, *, masked: bool = False) -> bytes:
    """The answer to a ping."""
    return Frame(Opcode.PONG, data).serialize(mask=masked)


def close_frame(code: int, text: str, *, masked: bool = False) -> bytes:
    """A close frame; long texts are cut."""
    body = text.encode("utf-8", "replace")
    if len(body) > CONTROL_BYTES - 2:
        body = body[: CONTROL_BYTES - 5].decode("utf-8", "ignore").encode() + b"..."
    return Frame(Opcode.CLOSE, code.to_bytes(2, "big") + body).serialize(mask=masked)


def close_frame_for(reason: str, *, masked: bool = False) -> bytes:
    """The close frame that tells why a connection ended."""
    return close_frame(_CODES.get(reason, CloseCode.INTERNAL_ERROR), reason, masked=masked)


def close_answer(data: bytes, *, masked: bool = False) -> bytes:
    """The answer to a close frame. Raises FrameError."""
    if not data:
        return Frame(Opcode.CLOSE, b"").serialize(mask=masked)
    if len(data) == 1:
        raise FrameError("close frame payload cannot be 1 byte")
    code = int.from_bytes(data[:2], "big")
    # 1004 to 1006 and 1015 are not for the wire, 1016 to 2999 belong to nobody yet
    if not 1000 <= code < 5000 or code in (1004, 1005, 1006, 1015) or 1016 <= code <= 2999:
        raise FrameError(f"invalid close status code {code}")
    try:
        return close_frame(code, Close(code, bytes(data[2:]).decode()).reason, masked=masked)
    except UnicodeDecodeError:
        return close_frame(CloseCode.INVALID_DATA, "invalid utf8 body in close frame", masked=masked)


def _deflate(data: bytes) -> bytes:
    # small messages need no window of 32 KB: making one costs more than they do
    small = len(data) <= _SMALL_MESSAGE_BYTES
    bits, memory = (12, 5) if small else (zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL)
    deflater = zlib.compressobj(zlib.Z_BEST_SPEED, zlib.DEFLATED, -bits, memory)
    return (deflater.compress(data) + deflater.flush(zlib.Z_SYNC_FLUSH)).removesuffix(_END_OF_MESSAGE)
