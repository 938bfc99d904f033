"""An account's claims as the options of an account: what a configuration file would say."""

from dataclasses import replace

from jetbroker.config.durations import bounded
from jetbroker.config.options import (
    TIER,
    AccountJetStreamOptions,
    AccountLimits,
    AccountOptions,
    ActivationOptions,
    ExportOptions,
    ImportOptions,
    MappingDestination,
    MappingOptions,
    TraceOptions,
)
from jetbroker.config.subjects import is_literal, is_valid_subject
from jetbroker.config.tokens import checks
from jetbroker.config.tokens.claims import SERVICE, AccountClaims, Export, Import, JetStreamLimits, read_activation
from jetbroker.config.tokens.fields import TokenError


def account_options(claims: AccountClaims) -> AccountOptions:
    """The options that these claims stand for."""
    allowed = claims.limits
    return AccountOptions(
        name=claims.subject,
        jetstream=_jetstream(claims),
        exports=[_export(claims, entry) for entry in claims.exports],
        imports=[_import(claims, entry) for entry in claims.imports],
        mappings=[_mapping(claims, source) for source in claims.mappings],
        limits=AccountLimits(allowed.connections, allowed.nats.subscriptions, allowed.nats.payload, allowed.leafnodes),
        traces=_traces(claims),
        tag=claims.name,
    )


def _traces(claims: AccountClaims) -> TraceOptions | None:
    """What makes no sense is as nothing, or as all of them."""
    if claims.traces is None:
        return None
    destination, sampling = claims.traces
    if not (is_valid_subject(destination) and is_literal(destination)):
        return None
    return TraceOptions(destination.encode(), sampling if 0 < sampling <= 100 else 100)


def _jetstream(claims: AccountClaims) -> AccountJetStreamOptions | None:
    allowed = claims.limits
    if not allowed.tiers:
        return _limits(allowed.jetstream) if allowed.jetstream.enabled else None
    if not any(tier.enabled for tier in allowed.tiers.values()):
        return None
    tiers = {name: _limits(tier) for name, tier in allowed.tiers.items()}
    return replace(tiers.get(TIER, AccountJetStreamOptions()), tiers=tiers)


def _limits(found: JetStreamLimits) -> AccountJetStreamOptions:
    return AccountJetStreamOptions(
        max_memory=found.memory,
        max_store=found.storage,
        max_streams=_unlimited(found.streams),
        max_consumers=_unlimited(found.consumers),
        max_ack_pending=_unlimited(found.max_ack_pending),
        max_bytes_required=found.max_bytes_required,
        memory_max_stream_bytes=_unlimited(found.memory_max_stream_bytes),
        store_max_stream_bytes=_unlimited(found.storage_max_stream_bytes),
    )


def _unlimited(value: int) -> int:
    return value if value > 0 else -1


def _export(claims: AccountClaims, entry: Export) -> ExportOptions:
    return ExportOptions(
        kind=entry.kind,
        subject=entry.subject,
        token_position=entry.token_position,
        response_type=entry.response_type or "Singleton",
        response_threshold=bounded(entry.threshold_ns / 1e9),
        activated=entry.token_required,
        signers=frozenset(claims.signing_keys),
        traced=entry.allow_trace,
        revocations=dict(entry.revocations),
    )


def _import(claims: AccountClaims, entry: Import) -> ImportOptions:
    options = ImportOptions(entry.kind, entry.account, entry.subject, share=entry.share, traced=entry.allow_trace)
    if entry.kind == SERVICE and not entry.local_subject:
        # the older form: `subject` is what is published, `to` what the exporter hears
        options.subject, options.to = entry.to or entry.subject, entry.subject
    elif entry.local_subject:
        options.to = entry.local_subject
    else:
        options.prefix = entry.to
    options.activation = _activation(entry, claims.subject)
    return options


def _activation(entry: Import, importer: str) -> ActivationOptions | None:
    """What an import's token proves; None when it proves nothing."""
    if not entry.token or checks.first(checks.check_import(entry, importer)):
        return None
    try:
        claims = read_activation(entry.token)
    except TokenError:
        return None
    if claims.not_before and checks.check_activation(claims):
        return None
    return ActivationOptions(
        claims.subject,
        claims.import_subject,
        claims.issuer,
        claims.issuer_account,
        claims.issued_at,
        claims.expires,
    )


def _mapping(claims: AccountClaims, source: str) -> MappingOptions:
    targets = claims.mappings[source]
    return MappingOptions(source, [MappingDestination(one.subject, one.weight, one.cluster) for one in targets])
