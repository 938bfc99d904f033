"""`leafnodes {}` and what belongs to it, for tests/config/test_differential_blocks.py."""

from __future__ import annotations

from tests.config.corpus_lines import lines

USER_SEED = "SUAJZQ45MZMFA2EE7UA5IAQRI5QXVX67CRQ3DWLPFSM4MSVSIBG5UOUDSI"
ACCOUNT_SEED = "SAAFTLREQ3CTMUOL76EZURLJCYPAS2ZIFAGIPEQZXSUX54NEPT5Y4KFCKU"
USER_KEY = "UCNGL4W5QX66CFX6A6DCBVDH5VOHMI7B2UZZU7TXAUQQSI2JPHULCKBR"
URL = "nats://127.0.0.1:1"


LISTENER = lines("""
leafnodes {}
leaf {}
leafnodes: 5
leafnodes: []
leafnodes: true
leafnodes { port: -1 }
leafnodes { port: 0 }
leafnodes { port: 70000 }
leafnodes { port: -2 }
leafnodes { port: x }
leafnodes { listen: "127.0.0.1:-1" }
leafnodes { listen: -1 }
leafnodes { listen: x }
leafnodes { listen: "a:b" }
leafnodes { listen: true }
leafnodes { host: "127.0.0.1", port: -1 }
leafnodes { net: "127.0.0.1", port: -1 }
leafnodes { host: 5 }
leafnodes { foo: 5 }
leafnodes { Port: -1, HOST: "127.0.0.1" }
leafnodes { advertise: "a:5", port: -1 }
leafnodes { leafnode_advertise: "a", port: -1 }
leafnodes { advertise: "a:b", port: -1 }
leafnodes { advertise: ":::", port: -1 }
leafnodes { advertise: ":::" }
leafnodes { advertise: 5 }
leafnodes { no_advertise: true, port: -1 }
leafnodes { no_advertise: 5 }
leafnodes { isolate_leafnode_interest: true, port: -1 }
leafnodes { isolate: false, port: -1 }
leafnodes { isolate: x }
leafnodes { write_deadline: "5s", port: -1 }
leafnodes { write_deadline: 5 }
leafnodes { write_deadline: x }
leafnodes { write_deadline: true }
leafnodes { write_timeout: close }
leafnodes { write_timeout: default }
leafnodes { write_timeout: retry, port: -1 }
leafnodes { write_timeout: x }
leafnodes { write_timeout: 5 }
leafnodes { reconnect: "2s" }
leafnodes { reconnect_delay: 2 }
leafnodes { reconnect_interval: x }
leafnodes { reconnect: true }
leafnodes { dial_timeout: "2s" }
leafnodes { dial_timeout: 2 }
leafnodes { dial_timeout: x }
leafnodes { min_version: "2.8.0", port: -1 }
leafnodes { minimum_version: "2.10.0-beta.1+x", port: -1 }
leafnodes { min_version: "2.7.9" }
leafnodes { min_version: "1.99.99" }
leafnodes { min_version: "10.0.0" }
leafnodes { min_version: "2.8" }
leafnodes { min_version: "v2.8.0" }
leafnodes { min_version: "02.8.0" }
leafnodes { min_version: "" }
leafnodes { min_version: 2 }
leafnodes { tls: 5 }
leafnodes { tls { cert_file: CERT, key_file: KEY }, port: -1 }
leafnodes { tls { cert_file: CERT, key_file: KEY, ca_file: CA, verify: true, handshake_first: auto }, port: -1 }
leafnodes { tls { cert_file: CERT, key_file: KEY, ca_file: CA, verify_and_map: true, timeout: 3 }, port: -1 }
leafnodes { tls { cert_file: CERT, key_file: OTHERKEY } }
leafnodes { tls { cert_file: CERT } }
leafnodes { tls { cert_file: nowhere, key_file: KEY } }
leafnodes { tls { foo: 5 } }
leafnodes { tls { handshake_first: x } }
leafnodes { tls { insecure: true, cert_file: CERT, key_file: KEY }, port: -1 }
leafnodes { port: -1 }~leafnodes { host: "127.0.0.1" }
leafnodes { port: -1 }~leaf { remotes: 5 }
""")

_COMPRESSIONS = lines("""
true
false
on
off
OFF
s2_auto
auto
s2_fast
fast
better
S2_Best
accept
"not supported"
s2_uncompressed
x
""
5
1.5
[]
{}
{mode: fast}
{mode: x}
{mode: 5}
{foo: 5}
{mode: auto, rtt_thresholds: ["10ms", "50ms", "100ms"]}
{mode: auto, thresholds: ["10ms", "0s", "100ms", "0s"]}
{mode: auto, rtts: ["50ms", "10ms"]}
{mode: auto, rtt: ["1ms", "2ms", "3ms", "4ms"]}
{mode: auto, rtt: ["1ms", "2ms", "3ms", "4ms", "5ms"]}
{mode: auto, rtt: ["0s", "0s"]}
{mode: auto, rtt: ["-5ms"]}
{mode: auto, rtt: ["-5ms", "5ms"]}
{mode: Auto, rtt: []}
{mode: off, rtt: ["50ms", "10ms"]}
{rtt: ["1ms"]}
{rtt: ["x"]}
{rtt: [5~]}
{rtt: 5}
{rtt: "5ms"}
""")
COMPRESSION = [
    *(f"leafnodes {{ port: -1\ncompression: {value}\n}}" for value in _COMPRESSIONS),
    *(f"leafnodes {{ remotes [ {{ url: {URL}\ncompression: {value}\n}} ] }}" for value in _COMPRESSIONS),
]

_AUTHORIZATIONS = lines(f"""
{{}}
5
[]
{{user: a, password: b}}
{{username: a, pass: b}}
{{user: a, password: "$2a$11$VHUjWGgQ1ZBmMjRhTMhCkuuaKIqQ6P3T/JEEIjqQEiNwP5sYJOlxC"}}
{{user: a}}
{{password: b}}
{{user: 5}}
{{password: 5}}
{{foo: 5}}
{{token: a}}
{{account: A, user: a, password: b}}
{{account: A}}
{{account: $G}}
{{account: $SYS}}
{{account: B}}
{{account: ""}}
{{account: 5}}
{{nkey: {USER_KEY}}}
{{nkey: {USER_KEY}, account: A}}
{{nkey: {USER_KEY}, user: a, password: b}}
{{nkey: {USER_KEY[:-1]}S}}
{{nkey: x}}
{{nkey: ""}}
{{nkey: 5}}
{{timeout: 5}}
{{timeout: 1.5}}
{{timeout: "3s"}}
{{timeout: 61}}
{{timeout: "2m"}}
{{timeout: x}}
{{timeout: true}}
{{timeout: -5}}
{{proxy_required: true, user: a, password: b}}
{{proxy_required: 5}}
{{users: []}}
{{users: 5}}
{{users: {{}}}}
{{users: [5~]}}
{{users: [a]}}
{{users: [{{}}]}}
{{users: [{{user: a, password: b}}]}}
{{users: [{{user: a, password: b, account: A}}, {{username: b, pass: c, account: $G}}]}}
{{users: [{{user: a, password: b, account: B}}]}}
{{users: [{{user: a, password: b, account: ""}}]}}
{{users: [{{user: a, password: b, account: 5}}]}}
{{users: [{{user: a, password: b, proxy_required: true}}]}}
{{users: [{{user: a, password: b, foo: 5}}]}}
{{users: [{{user: 5}}]}}
{{users: [{{nkey: {USER_KEY}}}]}}
{{users: [{{user: a, permissions: {{publish: x}}}}]}}
{{users: [{{user: a, password: b}}, {{user: a, password: c}}]}}
{{users: [{{password: b}}, {{password: c}}]}}
{{user: x, password: y, users: [{{user: a, password: b}}]}}
{{user: x, password: y, users: []}}
{{nkey: {USER_KEY}, users: [{{user: a, password: b}}]}}
""")
AUTHORIZATION = [
    f"accounts {{ A {{}} }}\nleafnodes {{ port: -1\nauthorization: {value}\n}}" for value in _AUTHORIZATIONS
]
AUTHORIZATION += [
    "accounts { SYS {} }\nsystem_account: SYS\nleafnodes { authorization { account: $SYS } }",
    "accounts { SYS {} }\nsystem_account: SYS\nleafnodes { authorization { account: SYS } }",
    "no_system_account: true\nleafnodes { authorization { account: $SYS } }",
    "leafnodes { port: -1, authentication { user: a, password: b } }",
    "authorization { users: [ {user: a, password: b} ] }\n"
    "leafnodes { port: -1, authorization { users: [ {user: a, password: b} ] } }",
]

_REMOTES = lines(f"""
{{}}
5
x
{{foo: 5}}
{{url: "{URL}"}}
{{urls: ["{URL}", "nats-leaf://127.0.0.1:2"]}}
{{urls: ["{URL}", "{URL}"]}}
{{urls: []}}
{{urls: [5~]}}
{{url: 5}}
{{url: true}}
{{url: {{}}}}
{{url: "127.0.0.1:1"}}
{{url: "127.0.0.1"}}
{{url: "localhost:1"}}
{{url: "nats://127.0.0.1:x"}}
{{url: "nats://a b:1"}}
{{url: "nats://[::1]:1"}}
{{url: "nats://[::1"}}
{{url: "nats://[127.0.0.1]:1"}}
{{url: "nats://%zz:1"}}
{{url: ":1"}}
{{url: ""}}
{{url: "  {URL}  "}}
{{url: "ws://127.0.0.1:1/x"}}
{{urls: ["ws://127.0.0.1:1", "wss://127.0.0.1:2"]}}
{{urls: ["ws://127.0.0.1:1", "nats://a:b@127.0.0.1:2"]}}
{{url: "{URL}", account: A}}
{{url: "{URL}", local: A}}
{{url: "{URL}", account: B}}
{{url: "{URL}", account: $SYS}}
{{url: "{URL}", account: ""}}
{{url: "{URL}", account: 5}}
{{url: "{URL}", credentials: "nowhere.creds"}}
{{url: "{URL}", creds: "~/nowhere.creds"}}
{{url: "{URL}", credentials: 5}}
{{url: "{URL}", nkey: {USER_SEED}}}
{{url: "{URL}", seed: {USER_SEED}}}
{{url: "{URL}", nkey: {ACCOUNT_SEED}}}
{{url: "{URL}", nkey: {USER_SEED[:-1]}A}}
{{url: "{URL}", nkey: {USER_KEY}}}
{{url: "{URL}", nkey: ""}}
{{url: "{URL}", nkey: 5}}
{{url: "{URL}", tls: 5}}
{{url: "{URL}", tls {{}}}}
{{url: "{URL}", tls {{ca_file: CA}}}}
{{url: "{URL}", tls {{ca_file: CERT, cert_file: CERT, key_file: KEY, timeout: 5, handshake_first: true}}}}
{{url: "{URL}", tls {{insecure: true}}}}
{{url: "{URL}", tls {{cert_file: CERT}}}}
{{url: "{URL}", hub: true}}
{{url: "{URL}", hub: 5}}
{{url: "{URL}", deny_imports: a}}
{{url: "{URL}", deny_import: ["a", "b.>"]}}
{{url: "{URL}", deny_imports: []}}
{{url: "{URL}", deny_imports: "a..b"}}
{{url: "{URL}", deny_imports: ["a b"]}}
{{url: "{URL}", deny_imports: 5}}
{{url: "{URL}", deny_imports: [5~]}}
{{url: "{URL}", deny_exports: a}}
{{url: "{URL}", deny_export: ["a", "b.>"]}}
{{url: "{URL}", deny_exports: "a..b"}}
{{url: "{URL}", no_randomize: true}}
{{url: "{URL}", dont_randomize: true}}
{{url: "{URL}", no_randomize: 5}}
{{url: "{URL}", first_info_timeout: "2s"}}
{{url: "{URL}", first_info_timeout: 2}}
{{url: "{URL}", first_info_timeout: x}}
{{url: "{URL}", dial_timeout: "2s"}}
{{url: "{URL}", dial_timeout: x}}
{{url: "{URL}", ws_compression: true}}
{{url: "{URL}", ws_compress: true}}
{{url: "{URL}", websocket_compress: true}}
{{url: "{URL}", websocket_compression: 5}}
{{url: "{URL}", ws_no_masking: true}}
{{url: "{URL}", websocket_no_masking: 5}}
{{url: "{URL}", isolate_leafnode_interest: true}}
{{url: "{URL}", isolate: 5}}
{{url: "{URL}", request_isolation: true}}
{{url: "{URL}", request_isolation: 5}}
{{url: "{URL}", disabled: true}}
{{url: "{URL}", disabled: 5}}
{{url: "{URL}", ignore_discovered_servers: true}}
{{url: "{URL}", ignore_discovered_servers: 5}}
{{url: "{URL}", jetstream_cluster_migrate: false}}
{{url: "{URL}"}}, {{url: "{URL}"}}
{{url: "{URL}"}}, {{url: "{URL}", account: $G}}
{{url: "{URL}"}}, {{url: "{URL}", account: A}}
{{url: "{URL}"}}, {{url: "{URL}", nkey: {USER_SEED}}}
{{url: "nats://127.0.0.1"}}, {{url: "nats://127.0.0.1:7422"}}
""")
REMOTES = [
    *(f"accounts {{ A {{}} }}\nleafnodes {{ remotes [ {remote} ] }}" for remote in _REMOTES),
    "leafnodes { remotes: 5 }",
    "leafnodes { remotes: {} }",
    "leafnodes { remotes: [] }",
]

# Told with each, what it looks like written by nats-server.
_URLS = """
nats://u:p@host:1 nats://u@host nats://u:@host NATS://HOST:1 nats://h/a/../b?c=d#e nats://h/a%20b nats://h/%5B nats://h/[
nats://u%40x:p%2Fx@h nats://u!x:p'x@h nats://[::1]:5 nats://[fe80::1%25eth0]:5 nats:h nats:/h nats:///h //h:5 /a a/b
h?x nats://h?x#y a.b-c+d://h:1 http://[::1]:2/x* nats://h/(x)! ws://h:80/p:q tls://a,b:5
""".split()
WRITTEN = [f'leafnodes {{ remotes [ {{url: "{url}"}}, {{url: "{url}"}} ] }}' for url in _URLS]

LIMITS_AND_DOMAINS = lines("""
accounts { A { limits { max_leafnodes: 5 } } }
accounts { A { limits { max_leafs: -1 } } }
accounts { A { limits { max_leafnodes: x } } }
default_js_domain {}
default_js_domain: 5
default_js_domain: []
default_js_domain { A: d }
default_js_domain { $G: d }
default_js_domain { $G: "" }
default_js_domain { $G: 5 }
default_js_domain { $SYS: d }
default_js_domain { $G: "a b" }
accounts { A {} }~default_js_domain { A: hub }
accounts { A {} }~default_js_domain { A: "" }
accounts { A { jetstream: enabled } }~default_js_domain { A: hub }
accounts { A { jetstream: enabled } }~default_js_domain { A: "" }
accounts { A { jetstream: disabled } }~default_js_domain { A: hub }
accounts { A { jetstream { max_mem: 5 } } }~default_js_domain { A: hub }
accounts { SYS {} }~system_account: SYS~default_js_domain { SYS: hub }
accounts { A {} }~default_js_domain { A: "a.b" }
accounts { A {} }~default_js_domain { A: "a..b" }
""")

ROWS = [*LISTENER, *COMPRESSION, *AUTHORIZATION, *REMOTES, *WRITTEN, *LIMITS_AND_DOMAINS]
