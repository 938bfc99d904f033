"""What a consumer says besides messages: status lines, and the texts of its subjects."""

from __future__ import annotations

from hashlib import sha256

from jetbroker.forms.strconv import atoi

_BASE62 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ACCOUNT_HASH_BYTES = 8

FLOW_CONTROL_REQUEST = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
NO_MESSAGES = b"NATS/1.0 404 No Messages\r\n\r\n"
REQUESTS_PENDING = b"NATS/1.0 408 Requests Pending\r\n\r\n"
PUSH_BASED = b"NATS/1.0 409 Consumer is push based\r\n\r\n"
TOO_MANY_WAITING = b"NATS/1.0 409 Exceeded MaxWaiting\r\n\r\n"
REQUIRED_API_LEVEL = b"NATS/1.0 412 Required Api Level\r\n\r\n"
PIN_MISMATCH = b"NATS/1.0 423 Nats-Pin-Id mismatch\r\n\r\n"
WRONG_PIN = "423 Nats-Wrong-Pin-Id"
REQUEST_TIMEOUT = "408 Request Timeout"
TOO_LARGE = "409 Message Size Exceeds MaxBytes"
BATCH_COMPLETED = "409 Batch Completed"
SERVER_SHUTDOWN = "409 Server Shutdown"


def status(line: str) -> bytes:
    """A status message without further headers. Line breaks in `line` (a client's own text) cannot end it early."""
    return f"NATS/1.0 {' '.join(line.splitlines())}\r\n\r\n".encode()


def status_with_rest(line: str, messages: int, size: int) -> bytes:
    """A status message that tells what was left of a pull request."""
    return f"NATS/1.0 {line}\r\nNats-Pending-Messages: {messages}\r\nNats-Pending-Bytes: {size}\r\n\r\n".encode()


def heartbeat(consumer_seq: int, stream_seq: int, stalled: bytes | None = None) -> bytes:
    """An idle heartbeat; `stalled` is the flow control subject whose answer is awaited."""
    tail = b"Nats-Consumer-Stalled: " + stalled + b"\r\n" if stalled else b""
    head = f"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: {consumer_seq}\r\nNats-Last-Stream: {stream_seq}\r\n"
    return head.encode() + tail + b"\r\n"


def pin_header(pin: str) -> bytes:
    """The header line of every message of a consumer with a pinned client."""
    return f"Nats-Pin-Id: {pin}\r\n".encode()


def account_hash(account: str) -> bytes:
    """The account's token in ack subjects of the second layout."""
    return bytes(_BASE62[byte % 62] for byte in sha256(account.encode()).digest()[:ACCOUNT_HASH_BYTES])


def parse_sample_percent(text: str) -> int:
    """`sample_freq` ("30" or "30%", checked before) as a percentage, 0 for none."""
    return min(atoi(text.removesuffix("%")), 100) if text else 0
