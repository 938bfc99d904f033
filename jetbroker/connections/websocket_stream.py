"""Frames around a protocol: what is below sees a WebSocket, what is inside sees a transport like any other.

On the side that accepted the WebSocket and on the one that asked for it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from websockets.frames import CloseCode, Frame, Opcode

from jetbroker import limits
from jetbroker.connections import frames
from jetbroker.connections.frames import FrameError, FrameReader, FrameWriter, Inflater
from jetbroker.connections.unauthenticated import Unauthenticated
from jetbroker.connections.upgrade import Upgrade
from jetbroker.errors import ProtocolError


class Speaker(Protocol):
    """A connection that speaks inside of frames: a client, a link."""

    close_reason: Any

    @property
    def closed(self) -> bool:
        """It is over."""
        ...

    @property
    def login_pending(self) -> bool:
        """It still has to log in."""
        ...

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It begins."""

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""

    def get_buffer(self, sizehint: int) -> memoryview:
        """Memory for what comes."""
        ...

    def buffer_updated(self, nbytes: int) -> None:
        """So much came."""

    def resume_writing(self) -> None:
        """The kernel takes bytes again."""

    def close(self, reason: str) -> None:
        """End it."""

    def cut_off(self) -> None:
        """End it: it keeps too much before its login."""

    def fail(self, error: ProtocolError) -> None:
        """End it because of an error."""


class Surroundings:
    """What the streams of one broker share.

    `message_bytes` gives the most that a compressed message may inflate to.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, unauthenticated: Unauthenticated, message_bytes: Callable[[], int]
    ) -> None:
        self.loop = loop
        self.unauthenticated = unauthenticated
        self.message_bytes = message_bytes


def message_bytes(max_payload: int) -> int:
    """The most a compressed message may inflate to."""
    payload = max_payload if max_payload > 0 else limits.MAX_PAYLOAD_BYTES
    return min(payload * limits.WEBSOCKET_MESSAGE_PAYLOADS, limits.WEBSOCKET_MESSAGE_BYTES)


class WebsocketStream:
    """The frames of the other side, handed to who speaks inside as it can take them."""

    def __init__(
        self, surroundings: Surroundings, inside: Speaker, socket: asyncio.Transport, upgrade: Upgrade
    ) -> None:
        self.inside = inside
        self.transport = WebsocketTransport(self, socket, upgrade)
        self.last_words = b""  # the close frame that has to go out, when it is not the usual one
        self._surroundings = surroundings
        self._masks = upgrade.masks
        self._socket = socket
        self._frames = FrameReader(masked=upgrade.masked, compressed=upgrade.compressed)
        self._inflater: Inflater | None = None  # of the message that is being read, if that is compressed
        self._rest = memoryview(b"")  # protocol bytes that were not taken yet
        self._paused = False  # by who speaks inside
        self._due = False  # the next turn is on its way
        self._reading = True  # from the socket
        self._owed: bytes | None = None  # the last ping that was not answered

    def receive(self, data: bytes) -> None:
        """Bytes of frames."""
        if not self.inside.closed:
            self._frames.feed(data)
            self._turn()

    def pause(self) -> None:
        """Nothing is taken now."""
        self._paused = True
        self._regulate()

    def go_on(self) -> None:
        """Bytes are taken again."""
        self._paused = False
        self._later()

    def written(self) -> None:
        """Everything that was written is with the kernel."""
        if self._owed is not None:
            self._socket.write(frames.pong(self._owed, masked=self._masks))
            self._owed = None
        self.inside.resume_writing()

    def lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self.inside.connection_lost(error)
        self._release()
        self.transport.let_go()

    def cut_off(self) -> None:
        """Kept too much before its login."""
        self.inside.cut_off()
        self._release()

    def _release(self) -> None:
        """Nothing is read any more. Now, not when a collection finds the cycle with the transport."""
        self._surroundings.unauthenticated.forget(self)
        self._frames.release()
        self._inflater = None
        self._rest = memoryview(b"")

    # --- a turn: a bounded amount of one connection's input ---

    def _later(self) -> None:
        if not self._due:
            self._due = True
            self._surroundings.loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._due = False
        self._turn()

    def _turn(self) -> None:
        left = limits.WEBSOCKET_TURN_BYTES
        try:
            while not self._paused and not self._due and not self.inside.closed:
                cost = self._advance()
                if not cost:
                    break
                left -= cost
                if left <= 0:
                    self._later()
        except FrameError as error:
            self.last_words = frames.close_frame(error.code, error.text, masked=self._masks)
            self.inside.fail(ProtocolError("", "Read Error", f"read error: {error.text}"))
        self._account()
        self._regulate()

    def _advance(self) -> int:
        """One step; returns what it cost, 0 when there is nothing to do."""
        if self._rest:
            return self._give()
        if self._inflater is not None and not self._inflater.hungry:
            self._rest = memoryview(self._inflater.read())
            if self.inside.login_pending and self._inflater.inflated_bytes > limits.WEBSOCKET_LOGIN_BYTES:
                raise FrameError("maximum payload exceeded", CloseCode.MESSAGE_TOO_BIG)
            return len(self._rest) + limits.WEBSOCKET_FRAME_COST_BYTES
        if self._inflater is not None and self._inflater.finished:
            self._inflater = None
        frame = self._frames.next()
        if frame is None:
            return 0
        self._take(frame)
        return limits.WEBSOCKET_FRAME_COST_BYTES

    def _give(self) -> int:
        """Hand protocol bytes on."""
        room = self.inside.get_buffer(-1)
        size = min(len(room), len(self._rest), limits.WEBSOCKET_PIECE_BYTES)
        room[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        self.inside.buffer_updated(size)
        return size

    def _take(self, frame: Frame) -> None:
        if frame.opcode == Opcode.PING:
            self._pong(bytes(frame.data))
        elif frame.opcode == Opcode.CLOSE:
            self.last_words = frames.close_answer(bytes(frame.data), masked=self._masks)
            self.inside.close("Client Closed")
        elif frame.opcode != Opcode.PONG:
            self._take_data(frame)

    def _take_data(self, frame: Frame) -> None:
        if frame.opcode != Opcode.CONT:
            self._inflater = Inflater(self._surroundings.message_bytes()) if self._frames.inflate else None
        if self._inflater is not None:
            self._inflater.add(bytes(frame.data), last=frame.fin)
        else:
            self._rest = memoryview(frame.data)

    def _pong(self, data: bytes) -> None:
        if self._socket.get_write_buffer_size() > limits.WEBSOCKET_PONG_BYTES:
            self._owed = data
        else:
            self._socket.write(frames.pong(data, masked=self._masks))

    def _account(self) -> None:
        """Tell what is kept before the login."""
        if self.inside.login_pending and not self.inside.closed:
            kept = (
                self._frames.held_bytes + len(self._rest) + (limits.WEBSOCKET_INFLATER_BYTES if self._inflater else 0)
            )
            self._surroundings.unauthenticated.keep(self, kept)
        else:
            self._surroundings.unauthenticated.forget(self)

    def _regulate(self) -> None:
        """Read from the socket only when its bytes would be looked at."""
        wanted = not self._paused and not self._due
        if wanted == self._reading or self._socket.is_closing():
            return
        self._reading = wanted
        if wanted:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()


class WebsocketTransport(asyncio.Transport):
    """What is written here goes out as frames."""

    def __init__(self, source: WebsocketStream, socket: asyncio.Transport, upgrade: Upgrade) -> None:
        super().__init__()
        self._source: WebsocketStream | None = source  # None: the connection is gone
        self._socket = socket
        self._writer = FrameWriter(upgrade)
        self._masks = upgrade.masks

    def write(self, data: Any) -> None:
        """Send protocol bytes."""
        self._socket.write(self._writer.message(bytes(data)))

    def close(self) -> None:
        """Say why, send what is left, close."""
        if self._socket.is_closing() or self._source is None:
            return
        reason = self._source.inside.close_reason or ""
        self._socket.write(self._source.last_words or frames.close_frame_for(reason, masked=self._masks))
        self._socket.close()

    def abort(self) -> None:
        """Close at once."""
        self._socket.abort()

    def is_closing(self) -> bool:
        """Closed, or about to be."""
        return self._socket.is_closing()

    def pause_reading(self) -> None:
        """Keep further input back."""
        if self._source is not None:
            self._source.pause()

    def resume_reading(self) -> None:
        """Go on with it."""
        if self._source is not None:
            self._source.go_on()

    def let_go(self) -> None:
        """The connection is gone. Who speaks inside keeps this, and would keep itself by it."""
        self._source = None

    def get_write_buffer_size(self) -> int:
        """Bytes the kernel has not taken."""
        return self._socket.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When who speaks inside is told that the kernel does not take more."""
        self._socket.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of the connection below, except its socket: nobody may write to it directly."""
        return default if name == "socket" else self._socket.get_extra_info(name, default)
