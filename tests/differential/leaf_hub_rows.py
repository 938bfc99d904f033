"""All conversations of leafs that dial a hub, by how the hub is configured."""

from __future__ import annotations

from tests.differential.leaf_hub_domains import DOMAIN_LIFE, DOMAINS, SYSTEM
from tests.differential.leaf_hub_handshakes import DUPLICATES, HANDSHAKES, LIMITS, LOOPS, PLAIN
from tests.differential.leaf_hub_interest import INTEREST
from tests.differential.leaf_hub_logins import ACCOUNTS, KEY, KEYS, LOGINS, TOKENS, USERS
from tests.differential.leaf_hub_messages import MESSAGES
from tests.differential.leaf_hub_permissions import PERMISSIONS
from tests.support.leaf_conversations import Setting

SETTINGS = [
    Setting("plain", [*HANDSHAKES, *INTEREST, *MESSAGES, *LOOPS, *DUPLICATES, *LIMITS, *PERMISSIONS]),
    Setting(
        "a login of its own, minimum version",
        PLAIN,
        leafnodes='compression: off, min_version: "2.10.0", authorization { user: leaf-u0, password: p, timeout: 0.5 }',
    ),
    Setting(
        "remotes of its own",
        PLAIN,
        leafnodes='compression: off, remotes: [ {url: "nats-leaf://127.0.0.1:1", account: X} ]',
    ),
    Setting("minimum version", PLAIN, leafnodes='compression: off, min_version: "2.10.0"'),
    Setting("isolated", INTEREST[10:16], leafnodes="compression: off, isolate_leafnode_interest: true"),
    Setting("no domain", [*DOMAINS, DOMAIN_LIFE[0]], server="jetstream { store_dir: STORE }"),
    Setting("a domain", [*DOMAINS, *DOMAIN_LIFE], server="jetstream { store_dir: STORE, domain: hub }"),
    Setting("no JetStream", DOMAINS[4:]),
    Setting("users of the block", LOGINS, leafnodes=f"compression: off\n{USERS}"),
    Setting("an nkey in an account", KEYS, accounts=f"K {{ users: [ {{nkey: {KEY.public}}} ] }}"),
    Setting(
        "an nkey of the block",
        [*KEYS, LOGINS[3]],
        leafnodes=f"compression: off\nauthorization {{ nkey: {KEY.public}, account: X }}",
    ),
    *(
        Setting(
            f"the system account, {name}",
            SYSTEM,
            accounts="SYS { users: [ {user: sys, password: p} ] }",
            server=f"system_account: SYS\n{server}",
            in_turn=True,
            own=("LS+ $SYS.", "LS+ $JS.API."),  # each has services of its own
        )
        for name, server in [
            ("no JetStream", ""),
            ("no domain", "jetstream { store_dir: STORE }"),
            ("a domain", "jetstream { store_dir: STORE, domain: hub }"),
            ("an empty default domain", 'jetstream { store_dir: STORE, domain: hub }\ndefault_js_domain: {X: ""}'),
        ]
    ),
    Setting("operator mode", TOKENS, operator=ACCOUNTS, in_turn=True),
    Setting("default domains without JetStream", DOMAINS[4:6], server='default_js_domain: {U0: "", U1: hub}'),
    Setting(
        "default domains",
        DOMAINS[4:6],
        server='jetstream { store_dir: STORE, domain: hub }\ndefault_js_domain: {U0: "", U1: hub}',
    ),
]
