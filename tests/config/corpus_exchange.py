"""Exports and imports, for tests/config/test_differential_blocks.py."""

from __future__ import annotations

from tests.config.corpus_lines import lines

EXPORTS = lines("""
5
{}
[]
[5~]
[a]
[{}]
[{stream: a}]
[{service: a}]
[{stream: "a.>"}, {service: "b.*"}]
[{stream: a, service: b}]
[{service: a, stream: b}]
[{stream: 5}]
[{service: 5}]
[{stream: "a..b"}]
[{service: "a..b"}]
[{service: "a b"}]
[{stream: ""}]
[{stream: a, accounts: [B]}]
[{stream: a, accounts: [NOPE]}]
[{service: a, accounts: [B, NOPE]}]
[{stream: a, accounts: []}]
[{stream: a, accounts: B}]
[{stream: a, accounts: 5}]
[{stream: a, accounts: [5~]}]
[{stream: a, accounts: [A]}]
[{service: a, response_type: single}]
[{service: a, response_type: Singleton}]
[{service: a, response: stream}]
[{service: a, response: chunk}]
[{service: a, response: chunked}]
[{service: a, response: x}]
[{service: a, response: 5}]
[{service: a, response: stream, response_type: stream}]
[{stream: a, response: stream}]
[{response: stream, stream: a}]
[{service: a, threshold: "5s"}]
[{service: a, response_threshold: "5s"}]
[{service: a, response_max_time: "1m"}]
[{service: a, response_time: "1ms"}]
[{service: a, threshold: 5}]
[{service: a, threshold: x}]
[{service: a, threshold: "5s", response_time: "5s"}]
[{stream: a, threshold: "5s"}]
[{stream: "a.*", account_token_position: 2}]
[{service: "a.*.b", account_token_position: 2}]
[{stream: "a.*", account_token_position: 1}]
[{stream: "a.*", account_token_position: 3}]
[{stream: "a.*", account_token_position: x}]
[{stream: "a.>", account_token_position: 2}]
[{stream: "a.*", account_token_position: 0}]
[{stream: a, foo: b}]
[{foo: b}]
[{accounts: [B]}]
[{stream: a}, {stream: a}]
[{service: a}, {service: a, response: stream}]
[{stream: ">"}]
[{service: ">"}]
[{stream: "$SYS.>"}]
[{service: a, allow_trace: true}]
[{service: a, allow_trace: false}]
[{service: a, allow_trace: 5}]
[{stream: a, allow_trace: true}]
[{allow_trace: false, stream: a}]
[{allow_trace: true}]
""")
IMPORTS = lines("""
5
{}
[]
[5~]
[{}]
[{stream: a}]
[{service: 5}]
[{stream: {}}]
[{stream: {account: B}}]
[{stream: {subject: s}}]
[{stream: {account: 5, subject: s}}]
[{stream: {account: B, subject: s, foo: x}}]
[{stream: {account: NOPE, subject: s}}]
[{service: {account: NOPE, subject: s}}]
[{stream: {account: B, subject: s}}]
[{stream: {account: B, subject: nope}}]
[{stream: {account: B, subject: "w.>"}}]
[{stream: {account: B, subject: "w.a"}}]
[{stream: {account: B, subject: "w.*"}, prefix: p}]
[{stream: {account: B, subject: "w.*"}, to: "x.$1"}]
[{stream: {account: B, subject: "w.*"}, to: "x.*"}]
[{stream: {account: B, subject: "w.*"}, to: x}]
[{stream: {account: B, subject: "w.*"}, to: "x.{{wildcard(1)}}"}]
[{stream: {account: B, subject: "w.*"}, to: "x.$2"}]
[{stream: {account: B, subject: "w.*"}, to: "x.>"}]
[{stream: {account: B, subject: "w.>"}, to: "x.>"}]
[{stream: {account: B, subject: "w.>"}, to: x}]
[{stream: {account: B, subject: s}, prefix: "p.*"}]
[{stream: {account: B, subject: s}, prefix: ">"}]
[{stream: {account: B, subject: s}, prefix: "p."}]
[{stream: {account: B, subject: s}, prefix: 5}]
[{stream: {account: B, subject: s}, to: 5}]
[{stream: {account: B, subject: s}, to: "a b"}]
[{stream: {account: B, subject: s}, to: "a..b"}]
[{stream: {account: B, subject: s}}, {stream: {account: B, subject: s}}]
[{stream: {account: B, subject: s}}, {stream: {account: B, subject: s}, to: t}]
[{stream: {account: B, subject: p}}]
[{stream: {account: B, subject: q}}]
[{stream: {account: A, subject: own}}]
[{stream: {account: B, subject: s}, service: {account: B, subject: v}}]
[{service: {account: B, subject: v}, stream: {account: B, subject: s}}]
[{stream: {account: B, subject: s}, foo: x}]
[{foo: x}]
[{service: {account: B, subject: v}}]
[{service: {account: B, subject: nope}}]
[{service: {account: B, subject: v}, to: local}]
[{service: {account: B, subject: v}, to: "local.*"}]
[{service: {account: B, subject: "u.*"}, to: "local.*"}]
[{service: {account: B, subject: "u.*"}, to: "local.$1"}]
[{service: {account: B, subject: "u.$1"}, to: "local.*"}]
[{service: {account: B, subject: "u.*"}, to: local}]
[{service: {account: B, subject: "u.*"}}]
[{service: {account: B, subject: "u.x"}, to: "l.*"}]
[{service: {account: B, subject: v}, to: "a..b"}]
[{service: {account: B, subject: v}, to: 5}]
[{service: {account: B, subject: v}, share: true}]
[{service: {account: B, subject: v}, share: 5}]
[{service: {account: B, subject: v}, prefix: p}]
[{service: {account: B, subject: v}}, {service: {account: B, subject: v}}]
[{service: {account: B, subject: v}, to: x}, {service: {account: B, subject: "u.a"}, to: x}]
[{service: {account: B, subject: v}, to: x}, {service: {account: B, subject: v}, to: y}]
[{service: {account: B, subject: "t.A"}}]
[{service: {account: B, subject: "t.B"}}]
[{service: {account: B, subject: "t.*"}}]
[{stream: {account: B, subject: "k.A"}}]
[{stream: {account: B, subject: "k.B"}}]
[{service: {account: A, subject: own}}]
[{stream: {account: B, subject: s}, allow_trace: true}]
[{stream: {account: B, subject: s}, allow_trace: 5}]
[{service: {account: B, subject: v}, allow_trace: true}]
[{allow_trace: false, service: {account: B, subject: v}}]
[{allow_trace: true}]
""")
TRACES = lines("""
a
"a.b"
"a.*"
"a b"
"a..b"
""
5
[a]
{}
{dest: a}
{DEST: a}
{dest: "a.>"}
{dest: ""}
{dest: 5}
{dest: a, sampling: 1}
{dest: a, sampling: 100}
{dest: a, sampling: "50%"}
{dest: a, sampling: "50"}
{dest: a, sampling: "50%%"}
{dest: a, sampling: "%"}
{dest: a, sampling: 0}
{dest: a, sampling: 101}
{dest: a, sampling: -1}
{dest: a, sampling: 1.5}
{dest: a, sampling: true}
{sampling: 5}
{dest: a, foo: b}
""")


def _ring(kind: str, exported: str, names: str, imported: str = "") -> str:
    """Each account imports from the one before what it exports to the next."""
    accounts = []
    for position, name in enumerate(names):
        source = f'{{account: {names[position - 1]}, subject: "{imported or exported}"}}'
        accounts.append(f'{name} {{ exports: [{{{kind}: "{exported}"}}], imports: [{{{kind}: {source}}}] }}')
    return "accounts { " + "\n".join(accounts) + " }"


_B = (
    'B { exports: [ {stream: s}, {stream: "w.>"}, {stream: p, accounts: [A]}, {stream: q, accounts: [B]}, '
    '{service: v}, {service: "u.*"}, {service: "t.*", account_token_position: 2}, '
    '{stream: "k.*", account_token_position: 2} ] }'
)
EXCHANGE = [
    *(f"accounts {{\nA {{\nexports: {block}\n}}\nB {{}}\n}}" for block in EXPORTS),
    *(f"accounts {{\nA {{\nimports: {block}\n}}\n{_B}\n}}" for block in IMPORTS),
    *(f"accounts {{\nA {{\n{key}: {block}\n}}\n}}" for key in ("msg_trace", "trace_dest") for block in TRACES),
    *(_ring("stream", subject, names) for subject in ("a", "a.>") for names in ("AB", "ABC")),
    *(_ring("service", subject, names) for subject in ("a", "a.>") for names in ("AB", "ABC")),
    *(_ring(kind, "a.>", "ABC", "a.x") for kind in ("stream", "service")),
    *lines("""
accounts { A { imports: [{service: {account: $G, subject: a}}] } }
accounts { A { imports: [{stream: {account: $SYS, subject: a}}] } }
accounts { A { imports: [{stream: {account: "$SYS", subject: ">"}}] }, "$SYS" { exports: [{stream: ">"}] } }
"""),
]  # fmt: skip
