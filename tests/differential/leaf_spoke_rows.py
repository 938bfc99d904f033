"""All conversations of hubs that are dialled, by how the spoke is configured."""

from __future__ import annotations

from tests.differential.leaf_spoke_domains import DOMAINS
from tests.differential.leaf_spoke_handshakes import ERRORS, HANDSHAKES, LOGINS, LOOPS, UPDATES
from tests.differential.leaf_spoke_traffic import CHAINS, INTEREST, MESSAGES
from tests.support.leaf_conversations import Setting

SETTINGS = [
    Setting("plain", [*HANDSHAKES, *ERRORS, *INTEREST, *MESSAGES, *LOOPS, *UPDATES, *LOGINS, *CHAINS]),
    Setting("no domain", DOMAINS, server="jetstream { store_dir: STORE }"),
    Setting("a domain", DOMAINS, server="jetstream { store_dir: STORE, domain: leaf }"),
    Setting("no JetStream", DOMAINS[6:]),
    Setting("default domains", DOMAINS[6:10:2], server='default_js_domain: {U0: "", U1: hub}'),
]
