"""Random input with the structure of what it imitates, and mutations that break it."""

from __future__ import annotations

from random import Random

BLANKS = (b" ", b" ", b" ", b" ", b"  ", b"\t", b" \t ")
LINE_ENDS = (b"\r\n", b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r\r\n", b"\r", b"")
SUBJECTS = (
    b"foo",
    b"a",
    b"a.b",
    b"*",
    b">",
    b"a.*",
    b"a.>",
    b"_INBOX.x.1",
    b"$SYS.x",
    b"a..b",
    b".",
    b"\xc3\xa4",
    b"f\rg",
)
SIDS = (b"1", b"2", b"sid-\xff", b"007")
QUEUES = (b"q", b"workers", b"_sys_", b">")
SIZES = (b"0", b"1", b"2", b"5", b"05", b"000000001", b"0000000001", b"-1", b"+5", b"5x", b"999999999", b"1048577", b"")
MAXES = (b"1", b"5", b"0", b"-1", b"0000000005", b"999999999", b"x")
BODIES = (b"", b"x", b"hi", b"hello", b"PING\r\n", b"\r\n", b"a\r\nb", b"\0\xff", b"NATS/1.0\r\n\r\nhi")
OBJECTS = (b"{}", b'{"verbose":false}', b'{"headers":true,"no_responders":true}', b"null", b"{", b'{"name":"x y"}')
TEXTS = (b"", b" x", b" x y", b"PONG", b"{}", b"\x00", b" " * 50)
DICTIONARY = (
    *(b"LS+ ", b"LS-", b"LMSG ", b"HMSG "),
    *(b"PUB ", b"HPUB ", b"SUB ", b"UNSUB ", b"CONNECT ", b"INFO ", b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR "),
    *(
        b"pub\t",
        b"MSG ",
        b"\r\n",
        b"\r",
        b"\n",
        b" ",
        b"\t",
        b"{}",
        b"0",
        b"1",
        b"999999999",
        b"2147483648",
        b"NATS/1.0",
    ),
    *(
        b"\0",
        b"\xff",
        b"\x0b",
        b"\x0c",
        b"\xa0",
        b"*",
        b">",
        b".",
        b"..",
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b"\\",
        b"-",
        b"+",
    ),
)


def _publish(random: Random) -> bytes:
    pick = random.choice
    words = [b"PUB", pick(SUBJECTS)]
    if random.random() < 0.3:
        words.append(pick(SUBJECTS))
    body = pick(BODIES)
    if random.random() < 0.4:
        words[0] = b"HPUB"
        words.append(b"%d" % random.randint(0, len(body)) if random.random() < 0.8 else pick(SIZES))
    words.append(b"%d" % len(body) if random.random() < 0.85 else pick(SIZES))
    return pick(BLANKS).join(words) + pick(LINE_ENDS) + body + (b"\r\n" if random.random() < 0.9 else pick(LINE_ENDS))


def _subscribe(random: Random) -> bytes:
    pick = random.choice
    words = [b"SUB", pick(SUBJECTS), pick(SIDS)]
    if random.random() < 0.3:
        words.insert(2, pick(QUEUES))
    return pick(BLANKS).join(words) + pick(LINE_ENDS)


def _unsubscribe(random: Random) -> bytes:
    pick = random.choice
    words = [b"UNSUB", pick(SIDS)]
    if random.random() < 0.5:
        words.append(pick(MAXES))
    return pick(BLANKS).join(words) + pick(LINE_ENDS)


def _simple(random: Random) -> bytes:
    pick = random.choice
    verb = pick((b"PING", b"PING", b"PONG", b"+OK", b"INFO", b"-ERR", b"CONNECT", b"CONNECT"))
    if verb in (b"INFO", b"CONNECT"):
        return verb + pick(BLANKS) + pick(OBJECTS) + pick(LINE_ENDS)
    return verb + pick(TEXTS) + pick(LINE_ENDS)


_COMMANDS = (_publish, _publish, _subscribe, _unsubscribe, _simple, _simple)


def commands(random: Random) -> bytes:
    """One to five commands of the client protocol; every other input is then damaged."""
    data = b"".join([random.choice(_COMMANDS)(random) for _ in range(random.randint(1, 5))])
    if random.random() < 0.05:
        data = data.replace(b" ", b" " + b"x" * random.choice((30, 40, 41, 4095, 4097)), 1)
    return mutate(random, data) if random.random() < 0.5 else data


def _leaf_message(random: Random) -> bytes:
    body = random.choice(BODIES)
    headers = random.random() < 0.4
    verb = b"HMSG" if headers else random.choice((b"LMSG", b"LMSG", b"lmsg", b"RMSG"))
    words = [verb, random.choice(SUBJECTS)]
    shape = random.randrange(6)
    if shape in (1, 2):
        words += [*((b"+",) if shape == 2 else ()), random.choice(SUBJECTS)]
    elif shape == 3:
        words.append(random.choice((b"|", b"|", b"+", b"*", b"||")))
    if shape in (2, 3):
        words += random.choices(QUEUES, k=random.randrange(4))
    if headers:
        words.append(random.choice((b"%d" % random.randint(0, len(body)), random.choice(SIZES))))
    words.append(b"%d" % len(body) if random.random() < 0.9 else random.choice(SIZES))
    line = b"".join([word + random.choice(BLANKS) for word in words[:-1]]) + words[-1]
    if random.random() < 0.05:
        line = line.replace(b" ", b"\r", 1) + b" "
    return line + random.choice(LINE_ENDS) + body + random.choice(LINE_ENDS)


def _leaf_interest(random: Random) -> bytes:
    words = [random.choice((b"LS+", b"LS-", b"ls+", b"RS+", b"RS-", b"SUB", b"UNSUB", b"A+")), random.choice(SUBJECTS)]
    if random.random() < 0.5:
        words += [random.choice(QUEUES), *random.choices((*SIZES, *MAXES), k=random.choice((0, 1, 1, 2)))]
    return random.choice(BLANKS).join(words) + random.choice(LINE_ENDS)


_LEAF_COMMANDS = (_leaf_message, _leaf_message, _leaf_interest)


def leaf_commands(random: Random) -> bytes:
    """One to five commands of a link, a fifth of them what a client says; every other input is then damaged."""
    makers = [
        random.choice(_LEAF_COMMANDS if random.random() < 0.8 else _COMMANDS) for _ in range(random.randint(1, 5))
    ]
    data = b"".join([make(random) for make in makers])
    if random.random() < 0.05:
        data = data.replace(b" ", b" " + b"x" * random.choice((30, 40, 41, 4095, 4097)), 1)
    return mutate(random, data) if random.random() < 0.5 else data


def mutate(random: Random, data: bytes) -> bytes:
    """One to four random changes."""
    for _ in range(random.choice((1, 1, 2, 4))):
        start = random.randint(0, len(data))
        stop = min(len(data), start + random.choice((0, 1, 1, 2, 8)))
        kind = random.randrange(6)
        if kind == 0:  # put in a word
            data = data[:start] + random.choice(DICTIONARY) + data[start:]
        elif kind == 1:  # put one in place of something
            data = data[:start] + random.choice(DICTIONARY) + data[stop:]
        elif kind == 2:  # take something out
            data = data[:start] + data[stop:]
        elif kind == 3:  # say something twice
            data = data[:stop] + data[start:]
        elif kind == 4:  # change a letter
            data = data[:start] + bytes([random.randrange(256)]) + data[start + 1 :]
        else:  # change case
            data = data[:start] + data[start:stop].swapcase() + data[stop:]
    return data


def words(random: Random, vocabulary: tuple[bytes, ...], most: int) -> bytes:
    """Some words of a vocabulary, one after the other."""
    return b"".join(random.choices(vocabulary, k=random.randint(1, most)))
