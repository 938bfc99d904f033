"""Puts a graph of exports, imports and mappings to work in the accounts' routers."""

from collections.abc import Collection

from jetbroker.accounts.account import Account
from jetbroker.accounts.client_info import ClientInfo, ThisServer
from jetbroker.accounts.graph import AccountGraph, Graph, ServiceImport, StreamImport
from jetbroker.accounts.services import Responses, ServiceReceiver
from jetbroker.accounts.streams import LinkShadow, Shadow, add_shadow, remove_shadow, shadow_subject, weigh_shadow
from jetbroker.routing.router import Router
from jetbroker.routing.subscription import Subscription


class Imports:
    """What one account takes from others; the router's `imports`. It also keeps the answers that are under way."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.streams: list[tuple[StreamImport, Router]] = []
        self.services: list[Subscription] = []
        self._rules: list[tuple[ServiceImport, Imports]] = []
        self._responses: Responses | None = None

    @property
    def responses(self) -> Responses:
        """The account's part in requests between accounts; made when first needed."""
        if self._responses is None:
            self._responses = Responses(self.router)
        return self._responses

    @property
    def is_needed(self) -> bool:
        """Must the router tell of its subscriptions?"""
        return bool(self.streams) or self._responses is not None

    # --- from the router ---

    def subscribed(self, sub: Subscription) -> list[Shadow] | None:
        """A subscription was made: what stands for it in the accounts that streams are imported from."""
        if not self.streams or isinstance(sub.receiver, (Shadow, LinkShadow, ServiceReceiver, Responses)):
            return None
        shadows = []
        for stream, exporter in self.streams:
            subject = shadow_subject(sub.subject, stream)
            if subject is not None:
                shadows.append(add_shadow(exporter, sub, subject, stream, self.router.account_name))
        return shadows or None

    def unsubscribed(self, sub: Subscription) -> None:
        """A subscription was taken back."""
        for shadow in sub.shadows or ():
            remove_shadow(shadow)
        sub.shadows = None
        if self._responses is not None:
            self._responses.unsubscribed(sub.subject)

    def asker_of(self, reply: bytes) -> tuple[Router, bytes] | None:
        """The router and the subject there where answers on this reply subject end; None: nobody waits for them."""
        return self.responses.asker_of(reply)

    def weighed(self, sub: Subscription) -> None:
        """Another number of members stands behind a link's subscription in a queue group."""
        for shadow in sub.shadows or ():
            weigh_shadow(shadow)

    # --- from the configuration ---

    def set_streams(self, streams: list[tuple[StreamImport, Router]]) -> None:
        """Import these streams, for the subscriptions that are there as well."""
        if streams == self.streams:
            return
        self.streams = streams
        for sub in self.router.subscription_list(0, self.router.subscriptions):
            for shadow in sub.shadows or ():
                remove_shadow(shadow)
            sub.shadows = self.subscribed(sub)

    def set_services(self, services: list[tuple[ServiceImport, "Imports"]], describe: ClientInfo) -> None:
        """Import these services. Requests that are under way are still answered."""
        if services == self._rules:
            return
        self._rules = services
        for sub in self.services:
            self.router.unsubscribe(sub)
        self.services = [
            self.router.subscribe(ServiceReceiver(rule, self.responses, exporter.responses, describe), rule.local)
            for rule, exporter in services
        ]

    def close(self) -> None:
        """The account is no more: it takes nothing, and answers nobody."""
        self.set_streams([])
        for sub in self.services:
            self.router.unsubscribe(sub)
        self.services, self._rules = [], []
        if self._responses is not None:
            self._responses.clear()


class Sharing:
    """What the accounts of a broker give each other."""

    def __init__(self, server: ThisServer, system_account: str) -> None:
        self._describe = ClientInfo(server, system_account)
        self._imports: dict[str, Imports] = {}

    def apply(self, accounts: dict[str, Account], graph: Graph, only: Collection[str] | None = None) -> None:
        """Mappings, imports and exports become those of `graph` (accounts.graph.check), at a start and at a reload.

        `accounts` holds every account that the graph names; one that it holds no longer loses what it took and gave.
        `only`: nothing has changed but these accounts. Nothing can fail here. No client is dropped: subscriptions get
        from now on what the new graph gives them.
        """
        for name in self._imports.keys() - accounts.keys():
            self._imports.pop(name).close()
        parts: dict[str, Imports] = {}

        def part_of(name: str) -> Imports:
            if name not in parts:
                parts[name] = self._part(accounts[name])
            return parts[name]

        for name in accounts if only is None else only:
            part = part_of(name)
            account = graph.get(name) or AccountGraph(name)
            part.router.mappings = account.mappings
            accounts[name].services = tuple(rule.local for rule in account.services)
            part.set_streams([(stream, part_of(stream.exporter).router) for stream in account.streams])
            part.set_services([(rule, part_of(rule.exporter)) for rule in account.services], self._describe)

        for part in parts.values():
            part.router.imports = part if part.is_needed else None

    def _part(self, account: Account) -> Imports:
        known = self._imports.get(account.name)
        if known is None or known.router is not account.router:
            if known is not None:
                known.close()
            known = self._imports[account.name] = Imports(account.router)
        return known
