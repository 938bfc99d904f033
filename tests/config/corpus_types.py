"""Values of a wrong type or shape, for tests/config/test_differential_blocks.py."""

_SIZES = [
    f"jetstream {{ {key}: {value} }}"
    for key in ("max_mem", "max_memory_store", "max_mem_store", "max_file", "max_file_store", "max_buffered_size")
    for value in ('"x"', '"10s"', '"a b"', "1.5", '"9999999999999999999G"', '"-5G"', '"5"', '"G"', '"+5K"', "[]")
]
_DURATIONS = [
    f"{key}: {value}"
    for key in ("ping_interval", "write_deadline", "lame_duck_duration", "lame_duck_grace_period")
    for value in ('"é"', '"5é"', r'"\t"', r'"a\"b"')
]

ROWS = [
    *_SIZES,
    *_DURATIONS,
    *(f"jetstream {{ sync: {value} }}" for value in ('""', '"x"', "5", '"5s"')),
    *(f"jetstream {{ strict: {value} }}" for value in ("5", "-1", "1.5", "2006-01-02T15:04:05Z", '"x"')),
    *(f"jetstream {{ limits: {value} }}" for value in ("5", "[]", '["a"]', "true")),
    *(f"jetstream {{ limits {{ batch: {value} }} }}" for value in ("5", "[]", '["a"]', "true")),
    *(f"accounts {{ A {{ users: {value} }} }}" for value in ("2006-01-02T15:04:05Z", "[{x: 5}]", "[{clients: 5}]")),
    "authorization { users: [ {permissions: 5} ] }",
    "authorization { users: [ {user: 5} ] }",
    "authorization { users: [ {user: 5, x: 5} ] }",
    "accounts { $G: {a: 1} }",
    "accounts: [$G]",
    "accounts { B { exports [ {service: a} ] }, A { imports [ { service: {account: B, a: 1} } ] } }",
    *(
        f'accounts {{ C {{ exports [ {{{kind}: "a.*"}} ] }}, '
        f'B {{ imports [ {{{kind}: {{account: C, subject: "a.*"}}, {to}}} ] }} }}'
        for kind in ("stream", "service")
        for to in ('to: "t.*.$1"', 'to: "t.$1.*"', 'to: "t.$1"', 'to: "$1"', 'to: "t.*"', 'to: "*"', 'to: "t"')
    ),
    *(
        f'accounts {{ C {{ exports [ {{{kind}: ">"}} ] }}, '
        f'B {{ imports [ {{{kind}: {{account: C, subject: "{subject}"}}}} ] }} }}'
        for kind in ("stream", "service")
        for subject in ("a..b", "a b", ".a", "a.", "a.>.b", ">", "*", "a")
    ),
    "accounts { A { exports [ { stream: a.*, account_token_position: 3 } ] } }",
    "accounts { A { exports [ { stream: a.*, account_token_position: 1 } ] } }",
    "accounts { A { exports [ { stream: a.*, account_token_position: 2 } ] } }",
]
