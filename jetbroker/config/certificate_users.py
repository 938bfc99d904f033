"""`verify_and_map`: users that are known by their certificates instead of by passwords."""

from jetbroker.config.options import Options, TlsOptions


def maps_certificates(tls: TlsOptions | None) -> bool:
    """Does a listener with this block look for the user in the client's certificate?"""
    return tls is not None and tls.verify_and_map


def mapped_types(options: Options) -> frozenset[str]:
    """The connection types, as `allowed_connection_types` calls them, on which a certificate names one of the users.

    Only listeners that run count. A link over WebSocket has a certificate only if that listener asks for one.
    """
    websocket, leafnodes = options.websocket, options.leafnodes
    found = {"STANDARD"} if maps_certificates(options.tls) else set()
    if websocket.port and maps_certificates(websocket.tls):
        found.add("WEBSOCKET")
    if leafnodes.port and not leafnodes.authorization.defined and maps_certificates(leafnodes.tls):
        found.add("LEAFNODE")
        if websocket.port and websocket.tls is not None and websocket.tls.verify:
            found.add("LEAFNODE_WS")
    return frozenset(found)


def can_be_mapped(mapped: frozenset[str], allowed: frozenset[str]) -> bool:
    """May a certificate name a user who may come over the `allowed` types (none: over all)?"""
    return bool(mapped & (allowed or mapped))
