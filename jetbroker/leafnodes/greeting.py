"""The INFO lines that links get from us, and what CONNECT says of this server."""

from typing import Any

from jetbroker import NATS_VERSION
from jetbroker.accounts.account import Account
from jetbroker.addresses import is_any, joined
from jetbroker.config.advertise import advertised
from jetbroker.config.options import Options, PermissionsOptions
from jetbroker.connections.info import ServerInfo
from jetbroker.forms.api_level import API_LEVEL
from jetbroker.forms.gotext import quoted
from jetbroker.leafnodes.handshake import info_line, rules_as_json
from jetbroker.leafnodes.interfaces import own_address
from jetbroker.leafnodes.link import Link
from jetbroker.logs.logger import Logger

PROTOCOL = 3  # what servers of 2.14 announce to each other


class Greeting:
    """What this server says of itself on links."""

    def __init__(self, options: Options, info: ServerInfo) -> None:
        self.options = options
        self._info = info
        self._fields: dict[str, Any] = {}

    @property
    def cluster(self) -> str:
        """Ours: links within a cluster are loops."""
        return self._info.cluster

    def listens(self, port: int, log: Logger) -> str:
        """The listener is open, at this port: the address that other servers are told. Raises ConfigError.

        It is told whatever `no_advertise` says: by it a spoke knows this port from one for clients.
        """
        leaf = self.options.leafnodes
        host = leaf.host
        if leaf.advertise:
            host, port = advertised(leaf.advertise, port)
        elif is_any(host):
            host = own_address() or host
            if is_any(host):
                log.error(f"Could not find any non-local IP for leafnode's listen specification {quoted(host)}")
        address = joined(host, port)
        self._fields = {"host": host, "port": port, "ip": address, "leafnode_urls": [address]}
        return address

    def first(self, link: Link) -> bytes:
        """What greets a link that was accepted."""
        fields = self._of(link)
        fields["nonce"] = link.remote.nonce.decode()
        upgrade = link.remote.upgrade
        deflates = upgrade is not None and upgrade.compressed  # nothing is compressed twice
        if self.options.leafnodes.compression.mode != "not supported" and not deflates:
            fields["compression"] = "off"
        return info_line(fields)

    def after_connect(self, link: Link, account: Account, permissions: PermissionsOptions | None) -> bytes:
        """Its login was good: what it may do, and whose it is here."""
        user = permissions or PermissionsOptions()
        fields = self._of(link)
        for name, rules in (("import", user.subscribe), ("export", user.publish)):
            found = rules_as_json(rules)
            if found is not None:
                fields[name] = found
        fields |= {"remote_account": account.name, "connect_info": True}
        if account.is_system:
            fields["acc_is_sys"] = True
        return info_line(fields)

    def connect_fields(self, link: Link) -> dict[str, Any]:
        """What a CONNECT of ours says of this server."""
        account = link.remote.account
        jetstream = account is not None and account.jetstream_options is not None and account.jetstream_options.enabled
        return {
            "version": NATS_VERSION,
            "server_id": self._info.server_id,
            "domain": self.options.jetstream.domain if self.options.jetstream.enabled else "",
            "name": self._info.server_name,
            "cluster": self.cluster,
            "headers": link.headers,
            "jetstream": jetstream and self.options.jetstream.enabled,
            "remote_account": "" if account is None else account.name,
            "protocol": PROTOCOL,
        }

    def _of(self, link: Link) -> dict[str, Any]:
        options, own = self.options, self._info.fields
        fields = {name: own[name] for name in ("server_id", "server_name", "version", "go", "headers", "max_payload")}
        fields |= self._fields
        fields |= {"proto": PROTOCOL, "auth_required": True, "client_id": link.cid, "info_on_connect": True}
        fields["api_lvl"] = API_LEVEL
        for name in ("jetstream", "domain", "cluster"):
            if name in own:
                fields[name] = own[name]
        if options.leafnodes.tls is not None:
            fields["tls_required"] = True
            if options.leafnodes.tls.verify:
                fields["tls_verify"] = True
        return fields
