"""Defaults and checks of consumer configurations: which are refused, and with which text.

The order of the checks is part of the behaviour: a request with two faults is refused for the first one.
"""

import dataclasses
import re
from collections.abc import Iterable

from jetbroker import limits
from jetbroker.forms.gotext import MILLISECOND, MINUTE, SECOND, Timestamp, duration_text
from jetbroker.forms.strconv import atoi
from jetbroker.jetstream.models.config import ConsumerConfig, StreamConfig
from jetbroker.jetstream.models.contracts import AccountLimits
from jetbroker.jetstream.models.errors import ApiError, api_error
from jetbroker.jetstream.models.metadata import consumer_level, metadata_bytes, stored_metadata
from jetbroker.jetstream.models.names import random_name, valid_name, valid_stream_subject
from jetbroker.jetstream.models.subject_index import PIECE, SubjectIndex, TooManySteps, any_collides, any_contains
from jetbroker.turns import Steps
from jetbroker.wire.subjects import wildcard

DEFAULT_ACK_WAIT = 30 * SECOND
EPHEMERAL_INACTIVE_THRESHOLD = 5 * SECOND
PIN_TIMEOUT = 2 * MINUTE
FLOW_CONTROL_HEARTBEAT = SECOND
_SHORTEST_HEARTBEAT = 100 * MILLISECOND
_GROUP_NAME = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")


def filters_of(config: ConsumerConfig) -> list[str]:
    """The filter subjects, however they were given; empty: everything."""
    if config.filter_subjects:
        return config.filter_subjects
    return [config.filter_subject] if config.filter_subject else []


def sourcing_consumer_config(config: ConsumerConfig, stream: StreamConfig) -> ConsumerConfig:
    """What a mirror or source gets that asks for a direct consumer by name.

    Limits retention: one that is gone soon after its subscriber, under a name of its own. Otherwise one that stays,
    and whose subscriber says when a message is safe with it, so that none is removed before.
    """
    if stream.retention == "limits":
        return dataclasses.replace(config, name=f"{config.name}-{random_name()}")
    return dataclasses.replace(
        config,
        direct=False,
        durable_name=config.name,
        ack_policy="flow_control",
        ack_wait=0,
        max_deliver=0,
        inactive_threshold=0,
    )


def default_consumer_config(
    config: ConsumerConfig,
    stream: StreamConfig,
    account: AccountLimits,
    *,
    pedantic: bool = False,
    arriving: bool = False,
) -> ConsumerConfig:
    """`config` with its defaults filled in. Raises ApiError where pedantic forbids to change a value.

    `arriving`: it comes with a stream from elsewhere, and says itself which API level it needs.
    """
    level = None if arriving else consumer_level(config)  # of what was asked for, as in nats-server
    config = dataclasses.replace(config)
    for name, lowest in _LOWEST:
        if getattr(config, name) < lowest:
            if pedantic:
                raise api_error("pedantic", err=f"{name} must {f'be set to {lowest}' if lowest else 'not be negative'}")
            setattr(config, name, lowest)
    config.max_deliver = config.max_deliver or -1
    _default_ack_wait(config, pedantic)
    _default_max_ack_pending(config, stream, account, pedantic)
    if config.inactive_threshold == 0 and stream.consumer_limits.inactive_threshold > 0:
        if pedantic:
            raise api_error("pedantic", err="inactive_threshold must be set if it's configured in stream limits")
        config.inactive_threshold = stream.consumer_limits.inactive_threshold
    if not config.deliver_subject and config.max_waiting == 0:
        config.max_waiting = limits.JS_MAX_WAITING_PULLS
    if not config.deliver_subject and config.max_batch == 0 and account.server.max_request_batch > 0:
        if pedantic:
            raise api_error("pedantic", err="max_request_batch must be set if it's JetStream limits are set")
        config.max_batch = account.server.max_request_batch
    if config.priority_policy == "pinned_client" and config.priority_timeout == 0:
        config.priority_timeout = PIN_TIMEOUT
    if config.ack_policy == "flow_control" and not pedantic:
        config.flow_control = True
        config.idle_heartbeat = FLOW_CONTROL_HEARTBEAT
    config.metadata = stored_metadata(config.metadata, level)
    return config


_LOWEST = (
    ("max_deliver", -1),
    ("max_waiting", 0),
    ("max_ack_pending", -1),
    ("max_batch", 0),
    ("max_expires", 0),
    ("max_bytes", 0),
    ("idle_heartbeat", 0),
    ("inactive_threshold", 0),
    ("priority_timeout", 0),
)


def _default_ack_wait(config: ConsumerConfig, pedantic: bool) -> None:
    if config.ack_wait == 0 and config.ack_policy in ("explicit", "all"):
        config.ack_wait = DEFAULT_ACK_WAIT
    if config.backoff:
        if pedantic and config.ack_wait != config.backoff[0]:
            raise api_error("pedantic", err="first backoff value has to equal batch AckWait")
        config.ack_wait = config.backoff[0]


def _default_max_ack_pending(
    config: ConsumerConfig, stream: StreamConfig, account: AccountLimits, pedantic: bool
) -> None:
    if config.max_ack_pending != 0:
        return
    if pedantic and stream.consumer_limits.max_ack_pending > 0:
        raise api_error("pedantic", err="max_ack_pending must be set if it's configured in stream limits")
    config.max_ack_pending = stream.consumer_limits.max_ack_pending
    if config.max_ack_pending == 0 and config.ack_policy != "none":
        caps = (limits.JS_MAX_ACK_PENDING, account.server.max_ack_pending, account.max_ack_pending)
        config.max_ack_pending = min(cap for cap in caps if cap > 0)


def check_consumer_config(config: ConsumerConfig, stream: StreamConfig, account: AccountLimits) -> Steps[None]:
    """Refuse a configuration (with its defaults) that `stream` cannot have a consumer with. Raises ApiError."""
    _check_name(config.durable_name or config.name)
    if config.num_replicas < 0:
        raise api_error("replicas_count_cannot_be_negative")
    _check_acks(config)
    if len(config.description.encode()) > limits.JS_DESCRIPTION_BYTES:
        raise api_error("consumer_description_too_long", max=limits.JS_DESCRIPTION_BYTES)
    if config.deliver_subject:
        yield from _check_push(config, stream)
    else:
        _check_pull(config, stream, account)
    _check_caps(config, stream, account)
    if config.direct:
        if not config.deliver_subject:
            raise api_error("consumer_direct_requires_push")
        if config.durable_name:
            raise api_error("consumer_direct_requires_ephemeral")
    yield from _check_filters(config)
    _check_start(config)
    _check_sampling(config.sample_freq)
    if config.flow_control and config.idle_heartbeat == 0:
        raise api_error("consumer_with_flow_control_needs_heartbeats")
    if config.durable_name and config.name and config.durable_name != config.name:
        raise api_error("consumer_create_durable_and_name_mismatch")
    if metadata_bytes(config.metadata) > limits.JS_METADATA_BYTES:
        raise api_error("consumer_metadata_length", limit=f"{limits.JS_METADATA_BYTES // 1024}KB")
    _check_priority_groups(config)
    _check_length_of_name(config)


def check_workqueue_policies(config: ConsumerConfig) -> None:
    """Refuse a new consumer of a work queue that does not ack each message, or leaves some out."""
    if config.direct or config.sourcing:
        return
    if config.ack_policy not in ("explicit", "flow_control"):
        raise api_error("consumer_wq_requires_explicit_ack")
    if config.deliver_policy != "all":
        raise api_error("consumer_wq_consumer_not_deliver_all")


def check_workqueue(config: ConsumerConfig, others: Iterable[ConsumerConfig]) -> Steps[None]:
    """Refuse a consumer of a work queue that would share messages with one of the `others`."""
    if config.direct or config.sourcing:
        return
    filters = filters_of(config)
    index = SubjectIndex(limits.JS_OVERLAP_STEPS)
    for other in others:
        if other.direct or other.sourcing:
            continue
        if not filters:
            raise api_error("consumer_wq_multiple_unfiltered")
        yield from index.add("other", filters_of(other) or [">"])
    try:
        if (yield from index.overlaps(filters)):
            raise api_error("consumer_wq_consumer_not_unique")
    except TooManySteps:
        raise _refuse("too many filter subjects to compare") from None
    yield from index.clear()


def check_consumer_update(old: ConsumerConfig, new: ConsumerConfig, *, has_interest: bool) -> None:
    """Refuse what an update may not change. `has_interest`: somebody listens on the old deliver subject."""
    for text, name in _FIXED:
        if _moment(getattr(old, name)) != _moment(getattr(new, name)):
            raise api_error("consumer_create", err=f"{text} can not be updated")
    if old.deliver_subject != new.deliver_subject:
        if not old.deliver_subject:
            raise api_error("consumer_create", err="can not update pull consumer to push based")
        if not new.deliver_subject:
            raise api_error("consumer_create", err="can not update push consumer to pull based")
        if has_interest:
            raise api_error("consumer_name_exist")
    if old.max_waiting != new.max_waiting:
        raise api_error("consumer_create", err="max waiting can not be updated")


def _moment(value: object) -> object:
    """Times are the same in every time zone."""
    return value.written_ns if isinstance(value, Timestamp) else value


_FIXED = (
    ("deliver policy", "deliver_policy"),
    ("storage type", "mem_storage"),
    ("start sequence", "opt_start_seq"),
    ("start time", "opt_start_time"),
    ("ack policy", "ack_policy"),
    ("replay policy", "replay_policy"),
    ("heart beats", "idle_heartbeat"),
    ("flow control", "flow_control"),
    ("direct", "direct"),
)


def _check_name(name: str) -> None:
    if name and not valid_name(name):
        raise _refuse("consumer name can not contain '.', '*', '>', '\\', '/'")


def _check_length_of_name(config: ConsumerConfig) -> None:
    if len(config.durable_name.encode()) > limits.JS_NAME_BYTES:
        raise api_error("consumer_name_too_long", max=limits.JS_NAME_BYTES)
    if len(config.name.encode()) > limits.JS_NAME_BYTES:
        raise api_error("consumer_create", err="error creating store for consumer")


def _refuse(text: str) -> ApiError:
    return api_error("stream_invalid_config", err=text)


def _check_acks(config: ConsumerConfig) -> None:
    if any(wait < 0 for wait in config.backoff):
        raise api_error("consumer_back_off_negative")
    if config.ack_wait < 0:
        raise api_error("consumer_ack_wait_negative")
    if config.ack_policy == "flow_control":
        _check_ack_flow_control(config)
    if config.max_deliver != -1 and len(config.backoff) > config.max_deliver:
        raise api_error("consumer_max_deliver_backoff")


def _check_push(config: ConsumerConfig, stream: StreamConfig) -> Steps[None]:
    subject = config.deliver_subject.encode()
    if wildcard(subject):
        raise api_error("consumer_deliver_to_wildcards")
    if not valid_stream_subject(subject):
        raise api_error("consumer_invalid_deliver_subject")
    if (yield from any_collides(subject, stream.subjects)):
        raise api_error("consumer_deliver_cycle")
    if config.max_waiting:
        raise api_error("consumer_push_max_waiting")
    if config.max_ack_pending > 0 and config.ack_policy == "none":
        raise api_error("consumer_max_pending_ack_policy_required")
    if 0 < config.idle_heartbeat < _SHORTEST_HEARTBEAT:
        raise api_error("consumer_small_heartbeat")


def _check_pull(config: ConsumerConfig, stream: StreamConfig, account: AccountLimits) -> None:
    if stream.retention == "workqueue" and config.ack_policy == "none":
        raise api_error("consumer_pull_requires_ack")
    if config.rate_limit_bps:
        raise api_error("consumer_pull_with_rate_limit")
    if config.idle_heartbeat:
        raise api_error("consumer_hb_requires_push")
    if config.flow_control:
        raise api_error("consumer_fc_requires_push")
    if 0 < config.max_expires < MILLISECOND:
        raise api_error("consumer_max_request_expires_too_small")
    if 0 < account.server.max_request_batch < config.max_batch:
        raise api_error("consumer_max_request_batch_exceeded", limit=account.server.max_request_batch)


def _check_ack_flow_control(config: ConsumerConfig) -> None:
    if not config.deliver_subject:
        raise api_error("consumer_ack_fc_requires_push")
    if not config.flow_control:
        raise api_error("consumer_ack_fc_requires_fc")
    if config.idle_heartbeat != FLOW_CONTROL_HEARTBEAT:
        raise _refuse("flow control ack policy heartbeat needs to be 1s")
    if config.max_ack_pending <= 0:
        raise api_error("consumer_ack_fc_requires_max_ack_pending")
    if config.ack_wait or config.backoff:
        raise api_error("consumer_ack_fc_requires_no_ack_wait")
    if config.max_deliver > 0:
        raise api_error("consumer_ack_fc_requires_no_max_deliver")


def _check_filters(config: ConsumerConfig) -> Steps[None]:
    if config.filter_subject and config.filter_subjects:
        raise api_error("consumer_duplicate_filter_subjects")
    if "" in config.filter_subjects:
        raise api_error("consumer_empty_filter")
    if len(config.filter_subjects) > limits.JS_SUBJECTS:
        raise _refuse("too many filter subjects")
    valid = []
    for number, text in enumerate(filters_of(config)):
        if number % PIECE == PIECE - 1:
            yield
        if not valid_stream_subject(text.encode()):
            break
        valid.append(text)
    yield from _check_filter_overlap(valid)  # that comes first, where it is seen first
    if len(valid) < len(filters_of(config)):
        raise _refuse("invalid subject")


def _check_filter_overlap(filters: list[str]) -> Steps[None]:
    """Refuse filters one of which contains another; in bounded time, there may be very many."""
    try:
        if (yield from any_contains(filters, limits.JS_OVERLAP_STEPS)):
            raise api_error("consumer_overlapping_subject_filters")
    except TooManySteps:
        raise _refuse("too many filter subjects to compare") from None


def _check_start(config: ConsumerConfig) -> None:
    policy = config.deliver_policy
    called = "deliver " + policy.replace("_", " ")
    is_set = {"sequence": config.opt_start_seq > 0, "time": config.opt_start_time is not None}
    wanted = policy.removeprefix("by_start_")
    if not is_set.get(wanted, True):
        raise _policy(called, f"start {wanted} is not set")
    for kind in is_set:
        if is_set[kind] and kind != wanted:
            # the doubled word is nats-server's
            start = "start start" if policy == "by_start_time" else "start"
            raise _policy(called, f"{start} {kind} is also set")
    if policy == "last_per_subject" and not filters_of(config):
        raise _policy(called, "filter subject is not set")


def _policy(called: str, text: str) -> ApiError:
    return api_error("consumer_invalid_policy", err=f"consumer delivery policy is {called}, but optional {text}")


def _check_sampling(text: str) -> None:
    if not text:
        return
    number = text.removesuffix("%")
    try:
        if atoi(number) >= 0:
            return
        fault = "<nil>"
    except ValueError as error:
        fault = str(error)
    raise api_error("consumer_invalid_sampling", err=fault)


def _check_caps(config: ConsumerConfig, stream: StreamConfig, account: AccountLimits) -> None:
    for cap in (account.server.max_ack_pending, account.max_ack_pending, stream.consumer_limits.max_ack_pending):
        if 0 < cap < config.max_ack_pending:
            raise api_error("consumer_max_pending_ack_excess", limit=cap)
    threshold = stream.consumer_limits.inactive_threshold
    if 0 < threshold < config.inactive_threshold:
        raise api_error("consumer_inactive_threshold_excess", limit=duration_text(threshold))


def _check_priority_groups(config: ConsumerConfig) -> None:
    if config.priority_policy == "none":
        if config.priority_groups:
            raise api_error("consumer_priority_group_with_policy_none")
        if config.priority_timeout:
            raise api_error("consumer_pinned_ttl_without_priority_policy_none")
        return
    if config.deliver_subject:
        raise api_error("consumer_push_with_priority_group")
    if not config.priority_groups:
        raise api_error("consumer_priority_policy_without_group")
    for group in config.priority_groups:
        if not group:
            raise api_error("consumer_empty_group_name")
        check_group_name(group)


def check_group_name(group: str) -> None:
    """Refuse what no priority group can be called. Raises ApiError 10162."""
    if not _GROUP_NAME.fullmatch(group):
        raise api_error("consumer_invalid_group_name")
