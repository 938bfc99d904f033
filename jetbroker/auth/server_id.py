"""Server ids in nkey form: base32 of a prefix byte, 32 bytes and a CRC-16, as `N...` (nkeys, ADR-14)."""

import base64
import os

SERVER_PREFIX = 13 << 3  # 'N'


def new_server_id() -> str:
    """A fresh public server id of 56 characters."""
    body = bytes([SERVER_PREFIX]) + os.urandom(32)
    return base64.b32encode(body + _crc16(body).to_bytes(2, "little")).decode().rstrip("=")


def _crc16(data: bytes) -> int:
    """CRC-16/XMODEM."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1
        crc &= 0xFFFF
    return crc
