"""Configurations, good and bad, that are put to nats-server and to us: `-t`, and what a start makes of them.

`CERT`, `KEY`, `OTHER_KEY`, `CA` stand for files that the tests make.
"""

from __future__ import annotations

from tests.config import corpus_exchange, corpus_leafnodes, corpus_types
from tests.config.corpus_lines import lines

USER_KEY = "UCNGL4W5QX66CFX6A6DCBVDH5VOHMI7B2UZZU7TXAUQQSI2JPHULCKBR"
OTHER_KEY = "UAPM67Q4RV4VDT325LXZOYT4DBEIQB5VJZUP5HBDXEJFXU4JGQ45I6SF"
BAD_CHECKSUM = USER_KEY[:-1] + "S"


USERS = [
    *lines(f"""
authorization {{ users: [ {{nkey: {USER_KEY}}} ] }}
authorization {{ users: [ {{nkey: {USER_KEY}, permissions {{publish: a}}}} ] }}
authorization {{ users: [ {{nkey: {BAD_CHECKSUM}}} ] }}
authorization {{ users: [ {{nkey: ""}} ] }}
authorization {{ users: [ {{nkey: 5}} ] }}
authorization {{ users: [ {{nkey: foo}} ] }}
authorization {{ users: [ {{user: a, nkey: {USER_KEY}}} ] }}
authorization {{ users: [ {{password: a, nkey: {USER_KEY}}} ] }}
authorization {{ users: [ {{nkey: {USER_KEY}}}, {{nkey: {USER_KEY}}} ] }}
authorization {{ users: [ {{nkey: {USER_KEY}}} ] }}~accounts {{ A {{ users: [ {{user: b, password: c}} ] }} }}
authorization {{ user: a, users: [ {{nkey: {USER_KEY}}} ] }}
authorization {{ token: a, users: [ {{nkey: {USER_KEY}}} ] }}
accounts {{ A {{ users: [ {{nkey: {USER_KEY}}} ] }} }}
accounts {{ A {{ users: [ {{nkey: {USER_KEY}}}, {{nkey: {USER_KEY}}} ] }} }}
no_auth_user: {USER_KEY}~accounts {{ A {{ users: [ {{nkey: {USER_KEY}}} ] }} }}
no_auth_user: {OTHER_KEY}~accounts {{ A {{ users: [ {{nkey: {USER_KEY}}} ] }} }}
"""),
    *lines("""
authorization { user: a, password: b }
authorization { username: a, pass: b }
authorization { user: a }
authorization { password: a }
authorization { token: a }
authorization { token: "" }
authorization { user: "", password: "" }
authorization { user: a, password: b, token: c }
authorization { password: b, token: c }
authorization { user: 5 }
authorization { user: a, password: 5 }
authorization { token: true }
authorization { timeout: 5 }
authorization { timeout: 1.5 }
authorization { timeout: "1m" }
authorization { timeout: "2m" }
authorization { timeout: 61 }
authorization { timeout: x }
authorization { timeout: true }
authorization { timeout: -5 }
authorization { foo: 5 }
authorization { nkey: foo }
authorization: 5
authorization: []
authorization {}
authorization { proxy_required: true }
authorization { proxy_required: 5 }
authorization { users: 5 }
authorization { users: a }
authorization { users: {} }
authorization { users: [] }
authorization { users: [a] }
authorization { users: [5~] }
authorization { users: [{}] }
authorization { users: [{user: ""}] }
authorization { users: [{password: a}] }
authorization { users: [{user: a, foo: b}] }
authorization { users: [{user: a, password: b, proxy_required: true}] }
authorization { users: [{user: a, password: b, proxy_required: 1}] }
authorization { users: [{user: a, password: b},{user: a, password: c}] }
authorization { users: [{user: a, password: b},{user: A, password: c}] }
authorization { user: x, users: [{user: a, password: b}] }
authorization { token: x, users: [{user: a, password: b}] }
authorization { user: x, users: [] }
authorization { token: x, users: [] }
authorization { users: [{user: a, password: b, allowed_connection_types: [STANDARD, websocket]}] }
authorization { users: [{user: a, password: b, connection_types: standard}] }
authorization { users: [{user: a, password: b, clients: [MQTT, mqtt_ws, LEAFNODE, leafnode_ws, in_process]}] }
authorization { users: [{user: a, password: b, allowed_connection_types: []}] }
authorization { users: [{user: a, password: b, allowed_connection_types: [foo]}] }
authorization { users: [{user: a, password: b, allowed_connection_types: [foo, STANDARD, bar]}] }
authorization { users: [{user: a, password: b, allowed_connection_types: 5}] }
authorization { users: [{user: a, password: b, allowed_connection_types: true}] }
authorization { users: [{user: a, password: b, allowed_connection_types: [5~]}] }
authorization { users: [{user: a, password: b, allowed_connection_types: {a: b}}] }
authorization { users: [{user: a, password: "$2a$11$nope"}] }
authorization { users: [{user: a, password: b}] }~accounts { A { users: [{user: a, password: c}] } }
authorization { users: [{user: a, password: b}] }~accounts { A { users: [{user: c, password: c}] } }
accounts { A { users: [{user: a, password: b}] }, B { users: [{user: a, password: b}] } }
no_auth_user: a~accounts { A { users: [{user: a, password: b}] } }
no_auth_user: b~accounts { A { users: [{user: a, password: b}] } }
no_auth_user: a
no_auth_user: a~authorization { user: a, password: b }
no_auth_user: 5
no_auth_user: ""
no_auth_user: a~authorization { users: [] }
default_sentinel: a
default_sentinel: 5
default_sentinel: ""
"""),
]

PERMISSION_BLOCKS = lines("""
{}
5
a
[]
{publish: a}
{pub: a, sub: b}
{import: a, export: b}
{publish: [a, b.>, "*.c"]}
{publish: []}
{publish: {}}
{publish: {allow: a}}
{publish: {allow: [a, b], deny: c}}
{publish: {allow: []}}
{publish: {deny: ">"}}
{publish: {foo: a}}
{publish: {Allow: a}}
{publish: 5}
{publish: true}
{publish: [5~]}
{publish: [[a]]}
{publish: {allow: 5}}
{publish: {deny: {}}}
{publish: {allow: "a..b"}}
{publish: {allow: ".a"}}
{publish: {allow: "a."}}
{publish: {allow: ""}}
{publish: {allow: "a.>.b"}}
{publish: {allow: "a b"}}
{publish: {allow: "a\\tb"}}
{publish: {allow: "a*"}}
{publish: {allow: "foo.b>"}}
{publish: {deny: [a, "b c"]}}
{subscribe: a}
{subscribe: "a b"}
{subscribe: {allow: ["a b", "a.> *.x", "c >"], deny: "d q"}}
{subscribe: {allow: "a b c"}}
{subscribe: {allow: "a..b q"}}
{subscribe: {allow: "a q..r"}}
{subscribe: {allow: " a"}}
{subscribe: {allow: "a "}}
{subscribe: {deny: "a > "}}
{subscribe: {allow: ""}}
{subscribe: 5}
{foo: a}
{allow_responses: true}
{allow_responses: false}
{allow_responses: 5}
{allow_responses: x}
{allow_responses: []}
{allow_responses: {}}
{allow_responses: {max: 5}}
{allow_responses: {max_msgs: -1, ttl: "-1s"}}
{allow_responses: {max_messages: 0, expires: "0"}}
{publish_allow_responses: {max_responses: 3, expiration: "1m"}}
{allow_responses: {max: x}}
{allow_responses: {max: true}}
{allow_responses: {expires: 5}}
{allow_responses: {expires: x}}
{allow_responses: {expires: "5"}}
{allow_responses: {foo: 5}}
""")
PERMISSIONS = [
    *(
        f"authorization {{\nusers: [ {{\nuser: a, password: b\npermissions: {block}\n}} ]\n}}"
        for block in PERMISSION_BLOCKS
    ),
    *(f"authorization {{\ndefault_permissions: {block}\n}}" for block in PERMISSION_BLOCKS[:24]),
    *(f"accounts {{\nA {{\ndefault_permissions: {block}\n}}\n}}" for block in PERMISSION_BLOCKS[:12]),
    *lines("""
authorization { default_permission: {publish: a}, users: [{user: a, password: b}] }
authorization { permissions: {publish: a} }
authorization { users: [{user: a, password: b, permission: {publish: a}}] }
authorization { users: [{user: a, password: b, authorization: {publish: a}}] }
"""),
]  # fmt: skip

TLS_BLOCKS = lines("""
{}
5
true
[]
{cert_file: CERT, key_file: KEY}
{cert_file: CERT, key_file: KEY, ca_file: CA, verify: true}
{cert_file: CERT, key_file: KEY, ca_file: CERT, verify: true}
{cert_file: CERT, key_file: KEY, ca_file: CA, verify_and_map: true, timeout: 5}
{cert_file: CERT}
{key_file: KEY}
{cert_file: 5}
{key_file: 5}
{ca_file: 5}
{cert_file: nope, key_file: KEY}
{cert_file: CERT, key_file: nope}
{cert_file: CERT, key_file: OTHERKEY}
{cert_file: KEY, key_file: CERT}
{cert_file: KEY, key_file: KEY}
{cert_file: CERT, key_file: CERT}
{cert_file: EMPTY, key_file: KEY}
{cert_file: CERT, key_file: EMPTY}
{cert_file: ".", key_file: KEY}
{ca_file: nope}
{ca_file: EMPTY}
{ca_file: KEY}
{ca_file: CA}
{ca_file: ""}
{verify: 5}
{verify: true}
{verify: false}
{verify_and_map: x}
{insecure: true}
{insecure: x}
{timeout: 1.5}
{timeout: "5s"}
{timeout: "5"}
{timeout: x}
{timeout: true}
{timeout: 0}
{connection_rate_limit: 5}
{connection_rate_limit: "5"}
{connection_rate_limit: x}
{min_version: "1.2"}
{min_version: "1.3"}
{min_version: "1.1"}
{min_version: "1.0"}
{min_version: "1.4"}
{min_version: "TLS1.2"}
{min_version: ""}
{min_version: 1.2}
{min_version: 13}
{cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}
{cipher_suites: ["TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"]}
{cipher_suites: [TLS_NOPE]}
{cipher_suites: [tls_aes_128_gcm_sha256]}
{cipher_suites: []}
{cipher_suites: x}
{cipher_suites: 5}
{cipher_suites: [5~]}
{cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]}
{cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA], allow_insecure_cipher_suites: true}
{cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA], allow_insecure_cipher_suites: false}
{allow_insecure_cipher_suites: 5}
{curve_preferences: [X25519, CurveP256]}
{curve_preferences: [X25519MLKEM768, CurveP384, CurveP521]}
{curve_preferences: [nope]}
{curve_preferences: []}
{curve_preferences: 5}
{curve_preferences: [true]}
{pinned_certs: []}
{pinned_certs: ["0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF"]}
{pinned_certs: ["0123"]}
{pinned_certs: x}
{pinned_certs: 5}
{pinned_certs: [true]}
{handshake_first: true}
{handshake_first: false}
{first: "true"}
{immediate: "off"}
{handshake_first: auto}
{handshake_first: AUTO_FALLBACK}
{handshake_first: 300ms}
{handshake_first: "5"}
{handshake_first: nope}
{handshake_first: 5}
{handshake_first: []}
{verify_cert_and_check_known_urls: false}
{verify_cert_and_check_known_urls: true}
{verify_cert_and_check_known_urls: 5}
{certs: [{cert_file: CERT, key_file: KEY}]}
{certificates: [{cert_file: CERT, key_file: KEY}, {cert_file: CERT, key_file: KEY}]}
{certs: []}
{certs: 5}
{certs: [5~]}
{certs: [{cert_file: CERT}]}
{certs: [{cert_file: CERT, key_file: 5}]}
{certs: [{cert_file: CERT, key_file: KEY, foo: x}]}
{certs: [{cert_file: nope, key_file: KEY}]}
{certs: [{cert_file: CERT, key_file: KEY}, {cert_file: CERT, key_file: OTHERKEY}]}
{certs: [{cert_file: CERT, key_file: KEY}], cert_file: CERT, key_file: KEY}
{foo: 5}
{Cert_File: CERT, KEY_FILE: KEY}
""")
TLS = [
    *(f"tls {block}" if block.startswith(("{", "[")) else f"tls: {block}" for block in TLS_BLOCKS),
    *(f"websocket {{\nno_tls: true\ntls: {block}\n}}" for block in TLS_BLOCKS[:20]),
    *lines("""
allow_non_tls: true
allow_non_tls: 5
tls {cert_file: CERT, key_file: KEY}~allow_non_tls: true
https_port: -1
https_port: x
https: -1
https: "127.0.0.1:-1"
https: x
https: true
tls {cert_file: CERT, key_file: KEY}~https_port: -1
tls {cert_file: CERT, key_file: KEY}~https: "127.0.0.1:-1"
tls {cert_file: CERT, key_file: KEY}~https_port: -1~http_port: -1
http_port: -1~https_port: -1
"""),
]

WEBSOCKET = lines("""
websocket {}
ws {}
websocket: 5
websocket: true
websocket { port: -1, no_tls: true }
websocket { port: -1 }
websocket { port: 0 }
websocket { port: x }
websocket { port: "80" }
websocket { host: 5 }
websocket { host: "127.0.0.1", port: -1, no_tls: true }
websocket { net: "127.0.0.1", port: -1, no_tls: true }
websocket { listen: "127.0.0.1:-1", no_tls: true }
websocket { listen: -1, no_tls: true }
websocket { listen: x }
websocket { listen: "a:b" }
websocket { listen: true }
websocket { port: -1, tls: { cert_file: CERT, key_file: KEY } }
websocket { port: -1, tls: {} }
websocket { port: -1, tls: { cert_file: CERT, key_file: KEY }, no_tls: true }
websocket { no_tls: 5 }
websocket { compression: true }
websocket { compress: false }
websocket { compression: x }
websocket { same_origin: true }
websocket { same_origin: 5 }
websocket { allowed_origins: [ "http://a.com", "https://b.com:8080" ], port: -1, no_tls: true }
websocket { origin: "http://a.com", port: -1, no_tls: true }
websocket { allowed_origins: [ "ftp://a.com" ], port: -1, no_tls: true }
websocket { allowed_origins: [ "a.com" ], port: -1, no_tls: true }
websocket { allowed_origins: [ "http://" ], port: -1, no_tls: true }
websocket { allowed_origins: [ "/x" ], port: -1, no_tls: true }
websocket { allowed_origins: [ "" ], port: -1, no_tls: true }
websocket { allowed_origins: [ "http://a:b" ], port: -1, no_tls: true }
websocket { allowed_origins: [ "a" ] }
websocket { allowed_origins: [], port: -1, no_tls: true }
websocket { allowed_origins: 5 }
websocket { allowed_origins: [5~] }
websocket { handshake_timeout: "1s" }
websocket { handshake_timeout: 5 }
websocket { handshake_timeout: x }
websocket { handshake_timeout: true }
websocket { handshake_timeout: 1.5 }
websocket { ping_interval: "1s" }
websocket { ping_interval: 5 }
websocket { ping_interval: x }
websocket { advertise: "a:5", port: -1, no_tls: true }
websocket { advertise: "a:b:c", port: -1, no_tls: true }
websocket { advertise: "a:b:c" }
websocket { advertise: 5 }
websocket { headers: { X-A: "b" }, port: -1, no_tls: true }
websocket { headers: 5 }
websocket { headers: { a: 5 } }
websocket { headers: { Host: a }, port: -1, no_tls: true }
websocket { headers: { upgrade: a }, port: -1, no_tls: true }
websocket { headers: { Nats-No-Masking: a }, port: -1, no_tls: true }
websocket { headers: { Sec-WebSocket-Foo: a }, port: -1, no_tls: true }
websocket { headers: { Host: a } }
websocket { jwt_cookie: a, port: -1, no_tls: true }
websocket { jwt_cookie: a }
websocket { user_cookie: a, pass_cookie: b, token_cookie: c, port: -1, no_tls: true }
websocket { user_cookie: 5 }
websocket { token_cookie: true }
websocket { authorization: { user: a, password: b }, port: -1, no_tls: true }
websocket { authorization: { token: a, timeout: 5 }, port: -1, no_tls: true }
websocket { authentication: { timeout: x } }
websocket { authorization: { foo: x } }
websocket { authorization: { user: 5 } }
websocket { authorization: 5 }
websocket { authorization: { user: a }, port: -1, no_tls: true }~authorization { users: [{user: b, password: c}] }
websocket { authorization: { token: a }, port: -1, no_tls: true }~authorization { users: [{user: b, password: c}] }
websocket { authorization: { token: a }, port: -1, no_tls: true }~authorization { user: b, password: c }
websocket { no_auth_user: a, port: -1, no_tls: true }
websocket { no_auth_user: a, port: -1, no_tls: true }~authorization { users: [{user: a, password: c}] }
websocket { no_auth_user: b, port: -1, no_tls: true }~authorization { users: [{user: a, password: c}] }
websocket { foo: 5 }
""")

MAPPING_BLOCKS = lines("""
{}
5
x
[]
{a: b}
{a: b, c: d}
{"a.*": "b.$1"}
{"a.*": "b.{{wildcard(1)}}"}
{"a.*.*": "b.$2.$1"}
{"a.>": "b.>"}
{"a.>": b}
{a: "b.>"}
{a: "b.*"}
{"a.*": "b.*"}
{"a.*": "b.$2"}
{"a.*": "b.$0"}
{"a.*": "b.{{wildcard(2)}}"}
{"a.*": "b.{{partition(10,1)}}"}
{"a.*": "b.{{partition(x,1)}}"}
{"a.*": "b.{{partition()}}"}
{"a.*": "b.{{partition(10,2)}}"}
{"a.*": "b.{{SplitFromLeft(1,2)}}"}
{"a.*": "b.{{splitfromleft(1)}}"}
{"a.*": "b.{{split(1,-)}}"}
{"a.*": "b.{{split(1)}}"}
{"a.*": "b.{{slice-from-left(1,2)}}"}
{"a.*": "b.{{left(1,2)}}"}
{"a.*": "b.{{random(5)}}"}
{a: "b.{{random(5)}}"}
{a: "b.{{partition(5)}}"}
{a: "b.{{wildcard(1)}}"}
{a: "b.$1"}
{a: "b.{{foo(1)}}"}
{a: "b.{{wildcard(1)"}
{a: "b c"}
{a: ""}
{"a..b": c}
{"a b": c}
{"": c}
{a: "b..c"}
{a: 5}
{a: true}
{a: []}
{a: [5~]}
{a: [b]}
{a: {}}
{a: {weight: 5}}
{a: {dest: b}}
{a: {dest: b, weight: 100}}
{a: {destination: b, weight: "50%"}}
{a: {dest: b, weight: "50"}}
{a: {dest: b, weight: 0}}
{a: {dest: b, weight: 101}}
{a: {dest: b, weight: -1}}
{a: {dest: b, weight: "101%"}}
{a: {dest: b, weight: "x"}}
{a: {dest: b, weight: "5%%"}}
{a: {dest: b, weight: ""}}
{a: {dest: b, weight: 1.5}}
{a: {dest: b, weight: true}}
{a: {dest: 5, weight: 5}}
{a: {dest: b, weight: 5, cluster: c}}
{a: {dest: b, weight: 5, cluster: 5}}
{a: {dest: b, weight: 5, foo: 5}}
{a: {dest: "b..c", weight: 5}}
{a: [{dest: b, weight: 50}, {dest: c, weight: 50}]}
{a: [{dest: b, weight: 50}, {dest: c, weight: 51}]}
{a: [{dest: b, weight: 50}, {dest: b, weight: 5}]}
{a: [{dest: b, weight: 50}, {dest: c, weight: 51, cluster: x}]}
{a: [{dest: a, weight: 50}, {dest: c, weight: 20}]}
{a: [{dest: b, weight: 50}, {dest: "$1", weight: 5}]}
{"$SYS.a": b}
{">": "x.>"}
{"*": "x.$1"}
""")
MAPPINGS = [
    *(f"mappings: {block}" for block in MAPPING_BLOCKS),
    *(f"accounts {{\nA {{\nmappings: {block}\n}}\n}}" for block in MAPPING_BLOCKS[:48]),
    "maps { a: b }",
    "accounts { A { maps { a: b } } }",
]

ACCOUNTS = lines("""
accounts {}
accounts: 5
accounts: [A, B]
accounts: [A, A]
accounts: [5~]
accounts: ["$G"]
accounts { A: 5 }
accounts { A {} }
accounts { "$G" {} }
accounts { "$SYS" {} }
accounts { "$SYS" { users: [{user: a, password: b}] } }
accounts { A { foo: 5 } }
accounts { A { nkey: foo } }
accounts { A { nkey: 5 } }
accounts { A { nkey: ACSUS77NQTOWOJLWOXAUUMRADZCMKHY5PLCKB45WE5HFJDLZL5OWFE33 } }
accounts { A { limits: {} } }
accounts { A { limits: 5 } }
accounts { A { limits: { max_connections: 5, max_subscriptions: 6, max_payload: 1kb } } }
accounts { A { limits: { max_conn: 5, max_subs: 6, max_pay: 1024 } } }
accounts { A { limits: { max_connections: -1 } } }
accounts { A { limits: { max_connections: x } } }
accounts { A { limits: { foo: 5 } } }
accounts { A { users: 5 } }
accounts { A { users: [] } }
accounts { A { default_permissions: {publish: a}, users: [{user: a, password: b}] } }
accounts { A { jetstream: enabled } }
accounts { A { jetstream: 5 } }
accounts { A { jetstream: { max_streams: 5 } } }
accounts { A { jetstream: { foo: 5 } } }
system_account: A~accounts { A {} }
system_account: B~accounts { A {} }
system: 5
system_account: A~no_system_account: true~accounts { A {} }
no_system_account: true
no_system: true
no_sys_acc: false
no_system_account: 5
authorization { user: a, password: b }~accounts { A { users: [] } }
authorization { user: a, password: b }~accounts { A {} }
""")

SERVER = lines("""
client_advertise: "a:5"
client_advertise: a
client_advertise: ":5"
client_advertise: ""
client_advertise: "a:b"
client_advertise: "a:b:c"
client_advertise: "[::1]:5"
client_advertise: "::1"
client_advertise: 5
proxy_protocol: true
proxy_protocol: 5
server_tags: a
server_tags: [a, B, " c "]
server_tags: []
server_tags: 5
server_tags: [5~]
server_tags: {}
server_metadata { a: b, c: d }
server_metadata {}
server_metadata { a: 5 }
server_metadata: 5
server_metadata: a
server_metadata: [a]
connect_error_reports: 5
connect_error_reports: 0
connect_error_reports: x
reconnect_error_reports: 5
reconnect_error_reports: true
trace_verbose: true
trace_verbose: 5
trace_headers: true
trace_headers: x
trace: false~trace_headers: false
max_traced_msg_len: 5
max_traced_msg_len: x
logfile_size_limit: 5
log_size_limit: 1MB
log_size_limit: x
logfile_max_num: 5
log_max_num: 5
log_max_num: x
syslog: false
syslog: 5
remote_syslog: 5
remote_syslog: foo
remote_syslog: "http://a:5"
remote_syslog: "udp://127.0.0.1:9"
remote_syslog: "tcp://127.0.0.1:1"
remote_syslog: "unix:///nope"
log_file: "/nope/x"
pid_file: "/nope/x"
ports_file_dir: "/nope"
max_sub_tokens: 8
max_subscription_tokens: 8
max_sub_tokens: 255
max_sub_tokens: 256
max_sub_tokens: 0
max_sub_tokens: -1
max_sub_tokens: x
no_header_support: true
no_header_support: 5
no_fast_producer_stall: true
no_fast_producer_stall: x
disable_sublist_cache: true
no_sublist_cache: true
disable_sublist_cache: 5
max_closed_clients: 5
max_closed_clients: x
max_connections: 0
max_conn: -1
max_payload: -1
max_payload: 65MB
max_payload: 8MB~max_pending: 1MB
max_pending: 1KB
write_timeout: default
write_timeout: close
write_timeout: retry
write_timeout: x
write_timeout: 5
write_deadline: 5
write_deadline: "5s"
ping_interval: 5
lame_duck_duration: "29s"
lame_duck_duration: "30s"~lame_duck_grace_period: "30s"
lame_duck_grace_period: "120s"
lame_duck_grace_period: 5
server_name: "a b"
server_name: ""
http: "127.0.0.1:-1"
http: "x"
http_port: 99999
http_base_path: "/x"
http_base_path: 5
foo: 5
foo: 5~port: $foo
debug: 5
max_payload: "1MB"
max_payload: 1.5
max_payload: 0x10
max_payload: 1_000
max_payload: +5
max_payload: $NONE
max_payload: 5~max_payload: 6
max_payload: 5; max_connections: 6
max_payload: 5, max_connections: 6
include "missing"
include missing
authorization { user: a password: b }
authorization { user: a; password: b }
authorization {~user: a~password: b~}
accounts: [A, B]~accounts { C {} }
ping_interval: 2m
ping_interval: "2m"
server_name: a~SERVER_NAME: b
port: 70000
http_port: 70000
listen: "127.0.0.1:-1"
listen: x
""")

ALL = [
    *USERS,
    *PERMISSIONS,
    *TLS,
    *WEBSOCKET,
    *MAPPINGS,
    *corpus_exchange.EXCHANGE,
    *ACCOUNTS,
    *SERVER,
    *corpus_types.ROWS,
    *corpus_leafnodes.ROWS,
]
