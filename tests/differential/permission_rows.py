"""Conversations about permissions, limits of subscriptions, and trace."""

from __future__ import annotations

from tests.support.conversations import Conversation, quiet, user

_SUBJECTS = b"""
    foo.a foo.* foo.> > * *.* bar.> bar.* bar.d bar.e.> bar.e.* bar.e.x lit any bar.q baz.a baz.* a.x.y bar.*.a
""".split()
_ODD = b'foo. foo.. .foo foo..a foo.>.a bar.>.x foo.*.>.b x"y caf\xc3\xa9 b\xffd foo*'.split()
_QUEUES = b"q q.1 q.* z zz".split()


def _users(*users: str) -> str:
    return "authorization { users = [\n" + "\n".join(users) + "\n{ user: all, password: p } ] }\n"


def _limited(permissions: str) -> str:
    return f"{{ user: u, password: p, permissions {{ {permissions} }} }}"


def _subscribe(subjects: list[bytes], queues: list[bytes]) -> bytes:
    lines = [b"SUB %b s%d" % (subject, number) for number, subject in enumerate(subjects)]
    lines += [
        b"SUB %b %b q%d-%d" % (subject, queue, at, number)
        for number, subject in enumerate(subjects)
        for at, queue in enumerate(queues)
    ]
    return b"".join(line + b"\r\nUNSUB %b\r\n" % line.split()[-1] for line in lines)


def _publish(*subjects: bytes, reply: bytes = b"") -> bytes:
    return b"".join(
        b"PUB %b %b1\r\n%d\r\n" % (subject, reply + b" " if reply else b"", number % 10)
        for number, subject in enumerate(subjects)
    )


_RULES = {
    "allow": 'subscribe: ["foo.*", "lit"]',
    "allow and deny": 'subscribe: { allow: ["foo.*", "bar.>", "*.x.y"], deny: ["bar.d", "bar.e.*", "foo.b"] }',
    "deny": 'subscribe: { deny: ["bar.d", "bar.e.>", "lit"] }',
    "queues": 'subscribe: { allow: ["foo.* q", "baz.* q.*", "any", "any q", "lit >"], deny: ["foo.b q", "any zz"] }',
    "deny a queue": 'subscribe: { deny: ["bar.q zz", "bar.> q.*"] }',
    "publish only": 'publish: ["foo.*"]',
    "one subject": "subscribe: lit",
    "empty lists": "subscribe: [], publish: { allow: [] }",
    "empty map": "subscribe: {}, publish: {}",
    "empty": "",
}
_PUBLISH_RULES = {
    "allow": 'publish: ["foo.*", "lit"]',
    "allow and deny": 'publish: { allow: ["foo.>", "bar.*"], deny: ["foo.d", "foo.w.*", "bar.q"] }',
    "deny": 'publish: { deny: ["bar.>", "lit"] }',
    "subscribe only": "subscribe: lit",
}


def _rules() -> list[Conversation]:
    found = [
        Conversation(
            f"subscribe: {name}",
            _users(_limited(rules)),
            {"u": user("u")},
            [("u", _subscribe(_SUBJECTS, _QUEUES)), ("u", _subscribe(_ODD, [b"q", b'"\x01']))],
        )
        for name, rules in _RULES.items()
    ]
    found += [
        Conversation(
            f"publish: {name}",
            _users(_limited(rules)),
            {"all": quiet("all"), "u": user("u")},
            [("all", b"SUB > 1\r\n"), ("u", _publish(*_SUBJECTS)), ("u", _publish(*_ODD, b"foo.w.>"))],
        )
        for name, rules in _PUBLISH_RULES.items()
    ]
    return found


def _delivery() -> list[Conversation]:
    deny = _users(_limited('subscribe: { deny: ["foo.d", "foo.e.>", "bar.q zz"] }'))
    subjects = (b"foo.a", b"foo.d", b"foo.e.x", b"foo.e", b"bar.q", b"bar.r")
    found = [
        Conversation(
            f"deny holds for what is delivered: {text.decode()}",
            deny,
            {"u": quiet("u"), "all": quiet("all")},
            [("u", text + b"\r\n"), ("all", _publish(*subjects)), ("all", _publish(*subjects))],
        )
        for text in (b"SUB > 1", b"SUB foo.* 1", b"SUB foo.> q 1", b"SUB *.q zz 1", b"SUB *.q yy 1", b"SUB bar.* 1")
    ]
    found += [
        Conversation(
            "the other member of a queue gets what one may not",
            deny,
            {"u": quiet("u"), "all": quiet("all"), "other": quiet("all")},
            [("u", b"SUB foo.* q 1\r\n"), ("other", b"SUB foo.d q 2\r\n"), ("all", _publish(*[b"foo.d"] * 9))],
        ),
        Conversation(
            "nobody may have it: no responders",
            deny,
            {"u": quiet("u"), "all": quiet("all") + b',"no_responders":true'},
            [("u", b"SUB foo.* 1\r\n"), ("all", b"SUB re 2\r\n" + _publish(b"foo.d", b"foo.a", b"none", reply=b"re"))],
        ),
        Conversation(
            "no 503 for what is refused",
            _users(_limited('publish: ["ok", "re"], subscribe: { deny: "no" }, allow_responses: true')),
            {"u": quiet("u") + b',"no_responders":true', "all": quiet("all") + b',"no_responders":true'},
            [
                ("u", b"SUB re 1\r\n" + _publish(b"no", b"ok", reply=b"re") + _publish(b"ok", reply=b"_R_.x")),
                ("all", b"SUB no 2\r\nSUB re 3\r\n" + _publish(b"ok", reply=b"re")),
                ("u", b"UNSUB 1\r\nSUB > 4\r\n"),
                ("all", b"UNSUB 2\r\n" + _publish(b"no", b"nobody", reply=b"re")),
                ("u", _publish(b"re", reply=b"re")),
            ],
        ),
        Conversation(
            "inboxes",
            _users(_limited('subscribe: { deny: "_INBOX.x.*" }')),
            {"u": quiet("u"), "all": quiet("all")},
            [("u", b"SUB _INBOX.> 1\r\nSUB _INBOX.x.> 2\r\n"), ("all", _publish(b"_INBOX.x.1", b"_INBOX.y.1"))],
        ),
        Conversation(
            "auto-unsubscribe counts what is delivered",
            deny,
            {"u": quiet("u"), "all": quiet("all")},
            [
                ("u", b"SUB foo.* 1\r\nUNSUB 1 2\r\n"),
                ("all", _publish(b"foo.d", b"foo.a", b"foo.d", b"foo.b", b"foo.c")),
            ],
        ),
    ]
    return found


def _responses() -> list[Conversation]:
    found = []
    for rules in (
        "allow_responses: true",
        "allow_responses: { max: 2 }",
        "allow_responses: { max: -1 }",
        'allow_responses: { max: 3, expires: "1m" }, publish: { allow: "foo.*", deny: "foo.d" }',
        'allow_responses: true, publish: { deny: "re.1" }',
        "allow_responses: false",
        'allow_responses: { max: 0, expires: "0s" }',
        'allow_responses: { max: 2, expires: "-1s" }',
        "publish: ask, allow_responses: true",
    ):
        found.append(
            Conversation(
                rules,
                _users(_limited(rules)),
                {"u": user("u"), "all": quiet("all")},
                [
                    ("u", b"SUB ask 1\r\n" + _publish(b"re.1", b"foo.a", b"foo.d")),
                    ("all", _publish(b"ask", reply=b"re.1") + _publish(b"ask")),
                    ("u", _publish(b"re.1", b"re.2", b"re.1", b"re.1", b"re.1")),
                    ("all", _publish(b"ask", b"ask", reply=b"re.1") + _publish(b"ask", reply=b"foo.d")),
                    ("u", _publish(b"re.1", b"re.1", b"foo.d", b"foo.d")),
                    ("all", _publish(b"ask", b"ask", b"ask", reply=b"re.3")),
                    ("u", _publish(b"re.3", b"re.3")),
                ],
            )
        )
    return found


def _orders() -> list[Conversation]:
    """Which refusal comes first, and what it says."""
    mapped = "accounts { A { users = [ %s, { user: all, password: p } ], mappings = { foo.m: bar.m, no: foo.n } } }"
    limits = "max_sub_tokens: 3\nmax_subscriptions: 3\n"
    return [
        Conversation(
            "the mapped subject is the one that has to be allowed",
            mapped % _limited('publish: { allow: "foo.*" }'),
            {"u": user("u"), "all": quiet("all")},
            [("all", b"SUB > 1\r\n"), ("u", _publish(b"foo.m", b"no", b"foo.n", b"bar.m"))],
        ),
        Conversation(
            "replies need no permission",
            _users(_limited('publish: { allow: "foo", deny: "secret" }, subscribe: { deny: "secret" }')),
            {"u": user("u"), "all": quiet("all")},
            [
                ("all", b"SUB > 1\r\n"),
                *(
                    ("u", _publish(b"foo", b"bar", b"secret", reply=reply))
                    for reply in (b"secret", b"no", b"foo", b"_R_")
                ),
            ],
        ),
        Conversation(
            "reserved subjects and replies",
            _users(_limited('publish: ["foo", "_GR_.>", "$NRG.>", "$SYS.>"]')),
            {"u": user("u"), "all": user("all")},
            [
                (name, _publish(*subjects, reply=reply))
                for name in ("u", "all")
                for subjects, reply in (
                    ((b"foo", b"no", b"_GR_.a", b"$NRG.a"), b"_R_.a"),
                    ((b"foo", b"no"), b'$JS.ACK."x'),
                    ((b"_GR_.a", b"$NRG.a", b"_GR_", b"$NRG", b"$GR.x", b"$GNR.a"), b""),
                )
            ],
        ),
        Conversation(
            "pedantic clients hear of the subject first",
            _users(_limited('publish: ["foo.>"]')),
            {"u": user("u").replace(b'"pedantic":false', b'"pedantic":true')},
            [("u", _publish(b"foo.*", b"foo..a", b"bar.*", b"foo.a", b"foo.a", b"foo.*") + b"SUB foo..a 1\r\n")],
        ),
        Conversation(
            "permissions, tokens, number, validity",
            limits + _users(_limited('subscribe: ["foo.>"]')),
            {"u": user("u")},
            [
                ("u", b"SUB bar.a.b.c 1\r\nSUB foo.a.b.c 1\r\nSUB foo.a..b 1\r\nSUB foo..a 1\r\n"),
                ("u", b"SUB foo.a 1\r\nSUB foo.a 1\r\nSUB foo..a 1\r\nSUB foo.b 2\r\nSUB foo.c 3\r\n"),
                ("u", b"SUB foo.d 4\r\nSUB foo.d 1\r\nSUB foo..d 4\r\nSUB foo.a.b.c 4\r\nSUB bar 4\r\n"),
                ("u", b"UNSUB 1\r\nSUB foo.d 4\r\nSUB foo.e 5\r\n"),
            ],
        ),
        Conversation(
            "a second CONNECT begins anew",
            _users(_limited('publish: "foo", subscribe: "foo"')),
            {"u": user("u"), "all": user("all")},
            [
                ("u", b"SUB foo 1\r\nSUB bar 2\r\nPUB bar 1\r\nx\r\n"),
                ("u", b"CONNECT {%b}\r\nSUB bar 1\r\nPUB bar 1\r\nx\r\n" % user("all")),
                ("u", b"CONNECT {%b}\r\nSUB bar 1\r\nSUB foo 1\r\nPUB foo 1\r\nx\r\n" % user("u")),
                ("all", b"CONNECT {%b}\r\nSUB bar 1\r\nPUB bar 1\r\nx\r\n" % user("u")),
            ],
            logged=(),  # nats-server goes on to name the first user
        ),
    ]


def _limits() -> list[Conversation]:
    return [
        Conversation(
            "limits of an account",
            "max_subscriptions: 5\nmax_payload: 100\naccounts { A { users = [ { user: u, password: p } ],"
            " limits { max_subscriptions: 2, max_payload: 10 } }, B { users = [ { user: all, password: p } ] } }",
            {"u": user("u"), "all": user("all"), "late": user("u")},
            [
                ("u", b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nPUB a 10\r\n0123456789\r\n"),
                ("all", b"".join(b"SUB a %d\r\n" % sid for sid in range(7))),
                ("late", b"SUB a 1\r\nPUB a 11\r\n"),
            ],
        ),
        Conversation(
            "a finished subscription does not count",
            "max_subscriptions: 1\n" + _users(),
            {"all": user("all")},
            [
                ("all", b"SUB a 1\r\nUNSUB 1 1\r\n" + _publish(b"a") + b"SUB a 2\r\nSUB a 3\r\n" + _publish(b"a")),
                ("all", b"UNSUB 2 1\r\n" + _publish(b"a", b"a") + b"SUB a 2\r\nUNSUB 2 5\r\n" + _publish(b"a")),
            ],
        ),
        Conversation(
            "the system account may do more",
            "accounts { SYS { users = [ { user: s, password: p } ] }, A { users = [ { user: all, password: p } ] } }\n"
            "system_account: SYS\n",
            {"s": user("s"), "all": user("all")},
            [
                (name, b"SUB $NRG.x 1\r\nSUB _GR_.x 2\r\n" + _publish(b"$NRG.x", b"_GR_.x", b"$SYS.x", reply=b"re"))
                for name in ("s", "all")
            ],
        ),
        Conversation(
            "no headers",
            "no_header_support: true\n" + _users(),
            {"all": user("all"), "late": user("all")},
            [("all", b"SUB a 1\r\nPUB a 1\r\nx\r\n"), ("late", b"HPUB a 12 12\r\nNATS/1.0\r\n\r\n\r\n")],
        ),
    ]


_MAPPED = """
    mappings = { a: b, "l.*": [ { destination: "x.$1", weight: "0%" } ], "s.*": "{{split(1,-)}}" }
"""


def _mappings() -> list[Conversation]:
    """A mapping of the account holds from the read behind the one that logs in; $G's are there from the beginning."""
    asked = _publish(b"a", b"l.1", b"s.-", b"s.x-y", reply=b"re")
    found = []
    for name, config, fields in (
        ("an account", f"accounts {{ A {{ users = [ {{ user: u, password: p }} ], {_MAPPED} }} }}", quiet("u")),
        ("$G", _MAPPED, quiet("nobody")),
    ):
        login = b"CONNECT {%b}\r\n" % (fields + b',"no_responders":true')
        found.append(
            Conversation(
                f"mappings of {name}",
                config,
                {"u": None},
                [
                    ("u", login + b"SUB re 1\r\n" + asked),
                    ("u", asked),
                    ("u", b"SUB > 2\r\n" + asked + asked),
                    ("u", login + asked),
                    ("u", asked),
                ],
            )
        )
    return found


_SHARED = """
accounts {
  A { users = [ { user: all, password: p }
                { user: a, password: p, permissions { publish: ["out.>"], subscribe: ["ask", "in.>"] } }
                { user: answers, password: p, permissions { subscribe: ["ask"], allow_responses: true } } ]
      exports = [ { stream: "out.>" }, { service: "ask" } ] }
  B { users = [ { user: ball, password: p }
                { user: b, password: p, permissions {
                    publish: ["local.ask"], subscribe: { allow: ["re", "_INBOX.>", "got.>"], deny: ["got.secret"] } } }
                { user: bad, password: p, permissions { publish: ["ask"], subscribe: { deny: ["got.>", "re"] } } } ]
      imports = [ { stream: { account: A, subject: "out.>" }, to: "got.>" }
                  { service: { account: A, subject: "ask" }, to: "local.ask" } ] }
}
"""


def _shared() -> list[Conversation]:
    """Accounts that import from each other: every user has its own names for what may be done."""
    everybody: dict[str, bytes | None] = {name: quiet(name) for name in ("all", "a", "answers", "ball", "b", "bad")}
    streams = _publish(b"out.x", b"out.secret", b"out.secret.y")
    return [
        Conversation(
            "imported streams are denied under their local names",
            _SHARED,
            everybody,
            [
                ("b", b"SUB got.> 1\r\nSUB got.secret 3\r\nSUB got.secret q 4\r\nSUB got.x 5\r\n"),
                ("bad", b"SUB > 1\r\nSUB got.x 2\r\nSUB *.* 3\r\n"),
                ("ball", b"SUB got.secret 1\r\n"),
                ("all", streams),
                ("a", streams + _publish(b"in.x")),
                ("b", b"UNSUB 1\r\n"),
                ("a", streams),
            ],
        ),
        Conversation(
            "a service is asked under its local name",
            _SHARED,
            everybody,
            [
                ("all", b"SUB ask 1\r\n"),
                ("b", b"SUB re 1\r\n" + _publish(b"local.ask", b"ask", reply=b"re")),
                ("bad", b"SUB re 1\r\nSUB re.x 2\r\n" + _publish(b"local.ask", b"ask", reply=b"re.x")),
                ("ball", b"SUB re 1\r\n" + _publish(b"ask")),
            ],
        ),
    ]


def _trace() -> list[Conversation]:
    header = b"HPUB foo 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    talk = (
        b'SUB foo 1\r\nSUB bar q 2\r\nUNSUB 2 5\r\nPUB foo 3\r\nh"\xff\r\nPUB foo re 0\r\n\r\n'
        b"PUB bar 5\r\nhello\r\nPONG\r\nUNSUB 1\r\nUNSUB 9\r\n"
        b"SUB a..b 7\r\nSUB bar 8\r\nUNSUB 8 1\r\nPUB bar 1\r\nx\r\n"
    )
    secrets = (
        b'CONNECT {"user":"all","pass":"p","auth_token":"tok","sig":"s","nkey":"",'
        b'"verbose":true,"pedantic":false,"headers":true}\r\n'
    )
    config = "mappings { foo.m: bar }\n" + _users(_limited('publish: "bar"'))
    levels = ("ERR", "TRC")
    return [
        Conversation("trace", config, {"all": user("all")}, [("all", talk)], levels, ("-V",)),
        Conversation("trace of headers", config, {"all": user("all")}, [("all", header + b"SUB foo 1\r\n" + header)],
                     levels, ("-V",)),
        Conversation("trace headers only", "trace_headers: true\n" + config, {"all": user("all")},
                     [("all", b"SUB foo 1\r\nPUB foo 2\r\nhi\r\n" + header)], levels, ("-V",)),
        Conversation("trace cut", "max_traced_msg_len: 3\n" + config, {"all": user("all")},
                     [("all", b"SUB foo 1\r\nPUB foo 3\r\nabc\r\nPUB foo 4\r\nabcd\r\nPUB foo 5\r\na\"\xffde\r\n")],
                     levels, ("-V",)),
        Conversation("trace of refusals and mappings", config, {"u": user("u")},
                     [("u", b"PUB foo 1\r\nx\r\nPUB foo.m 1\r\nx\r\nPUB bar _R_.a 1\r\nx\r\n")], levels, ("-V",)),
        Conversation("trace hides secrets", config, {"all": user("all")}, [("all", secrets)], levels, ("-V",)),
    ]  # fmt: skip


CONVERSATIONS = [*_rules(), *_delivery(), *_responses(), *_orders(), *_limits(), *_mappings(), *_shared(), *_trace()]
