"""Conversations of the core protocol, by hand: what a client sends, odd cases first."""

from __future__ import annotations

from tests.differential import message_rows
from tests.support.wire import LENIENT, PING, PLAIN, QUIET, Row


def _verbs() -> list[Row]:
    rows = [
        Row("no CONNECT: verbose and pedantic", b"SUB foo 1\r\nPUB foo 2\r\nhi\r\nPING\r\n"),
        Row("verbs in lower case", b'connect {"verbose":false}\r\nsub foo 1\r\npub foo 2\r\nhi\r\nping\r\n'),
        Row("verbs in mixed case", b'CoNnEcT {"verbose":false}\r\nSuB foo 1\r\npUb foo 2\r\nhi\r\nuNsUb 1\r\npInG\r\n'),
        Row("PING with text behind", PLAIN + b"PING x y\r\nPINGPONG\r\nPING\r\n", pongs=3),
        Row("PONG with text behind", PLAIN + b"PONG\r\nPONG x\r\nPONGPONG\r\nPING\r\n"),
        Row("+OK from a client", PLAIN + b"+OK\r\n+ok then\r\nPING\r\n"),
        Row("long PING", PLAIN + b"PING " + b"x" * 5000 + b"\r\nPING\r\n", pongs=2),
        Row("LF line ends", b'CONNECT {"verbose":false}\nSUB foo 1\nPUB foo 2\nhi\r\nPING\n'),
        Row("INFO from a client", PLAIN + b'INFO {"a":1}\r\nPING\r\n'),
        *(
            Row(f"INFO {fields}", PLAIN + b"INFO {%b}\r\nPING\r\n" % fields.encode())
            for fields in (
                '"server_id":5',
                '"host":"x","PORT":"y"',
                '"port":1.5',
                '"client_id":-1',
                '"max_payload":2147483648',
                '"connect_urls":"a"',
                '"connect_urls":["a",null]',
                '"ldm":1',
                '"ldm":null,"any":1',
                '"gossip_mode":256',
                '"import":{"allow":5}',
            )
        ),
        Row("INFO without blank", PLAIN + b"INFO{}\r\nPING\r\n"),
        Row("CONNECT without blank", b"CONNECT{}\r\nPING\r\n"),
        Row("bytes after a payload that is too long", PLAIN + b"PUB foo 2\r\nhix\r\nPING\r\n"),
        Row("payload too short", PLAIN + b"PUB foo 5\r\nhi\r\nPING\r\n"),
        Row("payload ended by LF", PLAIN + b"PUB foo 2\r\nhi\nPING\r\n"),
        Row("payload ended by CR and a letter", PLAIN + b"PUB foo 2\r\nhi\rXPING\r\n"),
        Row("messages before an error still arrive", PLAIN + b"SUB foo 1\r\nPUB foo 2\r\nhi\r\nX\r\n"),
    ]
    for text in (b"-ERR \r\n", b"-eRr   'x y' \r\n", b"-ERR'x'\r\n", b"-ERR\t'x'\r\n", b"+oK\n+OKx\r\n+O\r\n"):
        rows.append(Row(f"words of a server: {text!r}", PLAIN + text + b"PING\r\n"))
    for text in (b"PONG\r\n", b"+OK\r\n", b"UNSUB 1\r\n", b"INFO {}\r\n", b"HPUB foo 12 12\r\nNATS/1.0\r\n\r\n\r\n"):
        rows.append(Row(f"{text!r} before CONNECT", text + b"PING\r\n"))
    for text in (b" ", b"\r\n", b"\n", b"\0", b"\t", b"\xff", b"1"):
        rows.append(Row(f"{text!r} where a verb should begin", PLAIN + text + b"PING\r\n"))
    for text in (
        b"X",
        b"PON\r\n",
        b"PIN\r\n",
        b"QUIT\r\n",
        b"SUBSCRIBE foo 1\r\n",
        b"MSG foo 1 0\r\n\r\n",
        b"HMSG foo 1 0 0\r\n",
        b"RS+ foo\r\n",
        b"RS- foo\r\n",
        b"LS+ foo\r\n",
        b"LS- foo\r\n",
        b"RMSG",
        b"LMSG",
        b"A+ foo\r\n",
        b"A- foo\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"+X",
        b"-E\r\n",
        b"UNS\r\n",
        b"HP\r\n",
        b"PUX",
        b"CONX",
    ):
        rows.append(Row(f"wrong verb {text!r}", PLAIN + text))
    return rows


def _arguments() -> list[Row]:
    rows = []
    for text in (
        b"PUB",
        b"SUB",
        b"UNSUB",
        b"HPUB",
        b"-ERR",
        b"PUB ",
        b"SUB ",
        b"UNSUB ",
        b"HPUB ",
        b"-ERR ",
        b"PUB foo",
        b"PUB a b c 2",
        b"SUB foo",
        b"SUB a b c d",
        b"UNSUB a b c",
        b"HPUB foo 1",
        b"HPUB a b 1 2 3",
        b"-ERR 'x'",
        b"-err x",
        b"CONNECT",
        b"CONNECT ",
        b"INFO",
        b"INFO ",
        b"INFO x",
        b"INFO {",
        b"CONNECTED {}",
        b"PUB\t",
        b"SUB\t\t",
    ):
        rows.append(Row(f"arguments: {text!r}", QUIET + text + b"\r\nPING\r\n"))
    for text in (b"PUB  foo   2", b"PUB foo 2 ", b"PUB\tfoo\t2\t", b"PUB \t foo \t _in \t 2 \t ", b"PUB foo _in 2"):
        rows.append(Row(f"blanks: {text!r}", QUIET + b"SUB foo 1\r\n" + text + b"\r\nhi\r\nPING\r\n", watch=b"foo"))
    for text in (b"SUB  foo  1 ", b"SUB\tfoo\t1", b"SUB foo\t q  1\t"):
        rows.append(Row(f"blanks: {text!r}", QUIET + text + b"\r\nPUB foo 2\r\nhi\r\nPING\r\n"))
    for text in (b"UNSUB  1 ", b"UNSUB\t1\t", b"UNSUB 1  1 "):
        rows.append(
            Row(
                f"blanks: {text!r}", QUIET + b"SUB foo 1\r\n" + text + b"\r\nPUB foo 0\r\n\r\nPUB foo 0\r\n\r\nPING\r\n"
            )
        )
    for text in (
        b"CONNECT\t{}",
        b"CONNECT  {} ",
        b"CONNECT {}\t",
        b"CONNECT\t\t",
        b"connect{}",
        b"CONNECTX",
        b"CONNEC T{}",
    ):
        rows.append(Row(f"blanks: {text!r}", text + b"\r\nPING\r\n"))
    for text in (b"INFO\t{}", b"INFO  {} ", b"INFO null", b"INFO []", b"INFO 1", b"INFOX{}", b"INFO {}x", b"INFO \n"):
        rows.append(Row(f"blanks: {text!r}", PLAIN + text + b"\r\nPING\r\n"))
    for odd in (b"\x0b", b"\x0c", b"\xa0", b"\x00", b"\xc3\xa4", b"\x7f", b"\x01"):
        send = b"SUB foo" + odd + b" 1" + odd + b"\r\nPUB foo" + odd + b" re" + odd + b" 2\r\nhi\r\nPING\r\n"
        rows.append(Row(f"{odd!r} in subject, reply and sid", QUIET + send))
    return rows


def _sizes() -> list[Row]:
    rows = []
    for text in (
        b"0",
        b"5",
        b"05",
        b"000000005",
        b"0000000005",
        b"2147483648",
        b"99999999999999999999",
        b"-1",
        b"+5",
        b"0x5",
        b"5.0",
        b"1_0",
        b"5x",
        b"1e1",
        b"\xd9\xa5",
        b"1048577",
        b"999999999",
        b"1048576000",
    ):
        rows.append(
            Row(
                f"PUB size {text!r}",
                QUIET + b"PUB foo " + text + b"\r\n" + (b"hello" if b"5" in text else b"") + b"\r\nPING\r\n",
                watch=b"foo",
            )
        )
        rows.append(Row(f"HPUB total {text!r}", QUIET + b"HPUB foo 0 " + text + b"\r\nhello\r\nPING\r\n", watch=b"foo"))
        send = b"SUB foo 1\r\nUNSUB 1 " + text + b"\r\n" + b"PUB foo 0\r\n\r\n" * 2 + b"PING\r\n"
        rows.append(Row(f"UNSUB max {text!r}", QUIET + send))
    for header, total in (
        (b"5", b"4"),
        (b"-1", b"5"),
        (b"x", b"5"),
        (b"05", b"5"),
        (b"0", b"5"),
        (b"5", b"5"),
        (b"2", b"005"),
    ):
        send = b"HPUB foo " + header + b" " + total + b"\r\nhello\r\nPING\r\n"
        rows.append(Row(f"HPUB sizes {header!r} {total!r}", QUIET + send, watch=b"foo"))
    return rows


def _lines() -> list[Row]:
    fits = 4096 - len(b"foo 1")
    return [
        Row("longest SUB line", PLAIN + b"SUB foo 1" + b" " * fits + b"\r\nPING\r\n"),
        Row("SUB line one byte too long", PLAIN + b"SUB foo 1" + b" " * (fits + 1) + b"\r\nPING\r\n"),
        Row("SUB line too long, no end", PLAIN + b"SUB " + b"x" * 4098),
        Row("PUB line one byte too long", PLAIN + b"PUB foo 1" + b" " * (fits + 1) + b"\r\nx\r\nPING\r\n"),
        Row("HPUB line one byte too long", QUIET + b"HPUB foo 0 1" + b" " * (fits - 1) + b"\r\nx\r\nPING\r\n"),
        Row("longest PUB line", PLAIN + b"PUB foo 1" + b" " * fits + b"\r\nx\r\nPING\r\n", watch=b"foo"),
        Row("UNSUB line too long", PLAIN + b"UNSUB " + b"x" * 4097 + b"\r\nPING\r\n"),
        Row("CONNECT line too long", b'CONNECT {"name":"' + b"x" * 4096 + b'"}\r\nPING\r\n'),
        Row("INFO line too long", PLAIN + b'INFO {"name":"' + b"x" * 4096 + b'"}\r\nPING\r\n'),
        Row("-ERR line too long", PLAIN + b"-ERR '" + b"x" * 4096 + b"'\r\nPING\r\n"),
        Row("a payload is no line", PLAIN + b"PUB foo 6000\r\n" + b"x" * 6000 + b"\r\nPING\r\n", watch=b"foo"),
    ]


def _connect() -> list[Row]:
    rows = [
        Row(
            "second CONNECT drops subscriptions",
            PLAIN + b"SUB foo 1\r\n" + PLAIN + b"PUB foo 1\r\nx\r\nSUB foo 1\r\nPUB foo 1\r\ny\r\nPING\r\n",
        ),
        Row("first CONNECT keeps subscriptions", b"SUB foo 1\r\n" + PLAIN + b"PUB foo 1\r\nx\r\nPING\r\n"),
        Row(
            "protocol 1: INFO after the first PONG",
            b'CONNECT {"protocol":1,"verbose":true}\r\nPING\r\nPING\r\n',
            pongs=2,
        ),
        Row("protocol 0: no second INFO", b'CONNECT {"protocol":0}\r\nPING\r\nPING\r\n', pongs=2),
        Row("PING before CONNECT", b'PING\r\nCONNECT {"protocol":1}\r\nPING\r\nPING\r\n', pongs=3),
        Row(
            "second CONNECT repeats no INFO",
            b'CONNECT {"protocol":1}\r\nPING\r\nCONNECT {"protocol":1}\r\nPING\r\nPING\r\n',
            pongs=3,
        ),
        Row(
            "echo off",
            b'CONNECT {"verbose":false,"echo":false}\r\nSUB foo 1\r\nPUB foo 1\r\nx\r\nPING\r\n',
            watch=b"foo",
        ),
        Row("no_responders without headers", b'CONNECT {"no_responders":true}\r\nPING\r\n'),
        Row(
            "second CONNECT keeps what it does not say",
            b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
            b"CONNECT {}\r\nSUB re.foo 1\r\nPUB foo re.foo 0\r\n\r\nPING\r\n",
        ),
        Row(
            "second CONNECT takes headers away, not no_responders",
            b'CONNECT {"headers":true,"no_responders":true}\r\nCONNECT {"headers":false}\r\nPING\r\n',
        ),
        Row(
            "protocol 1 after the first PING: no INFO",
            b'CONNECT {"protocol":0,"verbose":false}\r\nPING\r\nCONNECT {"protocol":1}\r\nPING\r\nPING\r\n',
            pongs=3,
        ),
        Row("three CONNECTs", LENIENT + PLAIN + LENIENT + PING),
        *(
            Row(f"second CONNECT: {json_text!r}", PLAIN + b"SUB foo 1\r\nCONNECT {%b}\r\nPING\r\n" % json_text)
            for json_text in (b'"account":"A"', b'"protocol":7', b'"protocol":x', b'"no_responders":true')
        ),
        Row(
            "second CONNECT: echo",
            b'CONNECT {"verbose":false,"echo":false}\r\nSUB foo 1\r\nPUB foo 1\r\nx\r\n'
            b'CONNECT {"echo":true}\r\nSUB foo 1\r\nPUB foo 1\r\ny\r\nPING\r\n',
        ),
        Row("HPUB without headers agreed", PLAIN + b"HPUB foo 12 12\r\nNATS/1.0\r\n\r\n\r\nPING\r\n"),
    ]
    return rows


def _connect_json() -> list[Row]:
    rows = []
    for json_text in (
        b"null",
        b'{"verbose":null}',
        b'{"VERBOSE":false}',
        b'{"verbose":true,"verbose":false}',
        b'{"x":{"y":[1]}}',
        b'{"verbose":1}',
        b'{"name":5}',
        b'{"protocol":1.5}',
        b'{"protocol":1e0}',
        b'{"protocol":"1"}',
        b'{"auth_token":[1]}',
        b'{"protocol":99999999999999999999}',
        b"[]",
        b"1",
        b"true",
        b'""',
        b"{},",
        b'{"a":1,}',
        b"{} x",
        b"{'a':1}",
        b"\xef\xbb\xbf{}",
        b"{\0}",
        b'{"name":"\xff\xfe"}',
        b'{"name":"\\ud800"}',
        b"  {  }  ",
        b'{"protocol":-1}',
        b'{"protocol":2}',
        b'{"account":"A"}',
        b'{"account":""}',
        b'{"new_account":true}',
        b'{"user":"u","pass":"p"}',
        b'{"auth_token":"t"}',
        b'{"nkey":"UX","sig":"x"}',
        b'{"jwt":"x"}',
        b"{",
        b'{"a"}',
        b'{"verbose":false,"pedantic":false,"lang":"x","version":"y","tls_required":false}',
        b'{"tls_required":"no"}',
        b'{"echo":"no"}',
        b'{"headers":1}',
        b'{"verbose":1,"verbose":true}',
        b'{"verbose":false,"VERBOSE":null}',
        b'{"protocol":-9223372036854775808}',
        b'{"protocol":9223372036854775808}',
        b'{"pa\xc5\xbf\xc5\xbf":1}',
        b'{"n\xe2\x84\xaaey":1}',
        b'{"pro\\u0074ocol":2}',
        b'{"remote_account":1}',
        b'{"import":1}',
        b'{"import":{"allow":[1]}}',
        b'{"Export":{"Deny":["a",null]}}',
        b'{"name":"\t"}',
        b'{"x":NaN}',
        b'{"x":01}',
        b'{"x":1e400}',
        b'{"sub":{"protocol":5}}',
    ):
        rows.append(Row(f"CONNECT {json_text!r}", b"CONNECT " + json_text + b"\r\nPING\r\n"))
    for name in (
        "tls_required echo headers no_responders pedantic lang version sig jwt nkey user pass proxy_sig server hub "
        "cluster compression gateway lnoc isolate domain route remote nonce"
    ).split():
        for value in ("1", '"x"', "{}"):
            fields = f'{{"verbose":false,"{name}":{value}}}'
            rows.append(Row(f"CONNECT {fields}", f"CONNECT {fields}\r\nPING\r\n".encode(), cut=False))
    return rows


ROWS = [
    *_verbs(),
    *_arguments(),
    *_sizes(),
    *_lines(),
    *_connect(),
    *_connect_json(),
    *message_rows.ROWS,
]
