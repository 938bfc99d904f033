from enum import IntEnum

class AckKind(IntEnum):
    ACK_UNKNOWN = 0
    ACK_ACK = 1
    ACK_NAK = 2
    ACK_PROGRESS = 3
    ACK_NEXT = 4
    ACK_TERM = 5
