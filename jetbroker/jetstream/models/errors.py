"""JetStream's API errors: the code and text a client sees under `error` in a reply.

Clients compare `err_code`; texts are nats-server's.  `api_error("stream_not_found")` makes one; names are the
server's own constants without `JS` and `Err`, in snake case.
"""

from typing import Any


class ApiError(Exception):
    """A refusal that goes out as JSON. `code` is the HTTP-like class, `err_code` the number clients compare."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{description} ({err_code})")
        self.code = code
        self.err_code = err_code
        self.description = description

    def to_json(self) -> dict[str, Any]:
        """The error object, keys in nats-server's order; empty ones are left out as it does."""
        reply: dict[str, Any] = {"code": self.code}
        if self.err_code:
            reply["err_code"] = self.err_code
        if self.description:
            reply["description"] = self.description
        return reply


def api_error(name: str, **values: object) -> ApiError:
    """The error called `name`; `values` fill the placeholders of its text.

    Raises KeyError for an unknown name or a missing value: both are faults of the caller, not of a client.
    """
    code, err_code, description = ERRORS[name]
    if "{" in description:
        description = description.format_map(values)
    return ApiError(code, err_code, description)


def wrap_error(name: str, error: BaseException) -> ApiError:
    """`error` itself when it is an ApiError, else the generic error `name` with its text as `{err}`."""
    if isinstance(error, ApiError):
        return error
    return api_error(name, err=str(error))


ERRORS: dict[str, tuple[int, int, str]] = {
    # general, account and limits
    "account_resources_exceeded": (400, 10_002, "resource limits exceeded for account"),
    "bad_request": (400, 10_003, "bad request"),
    "insufficient_resources": (503, 10_023, "insufficient resources"),
    "invalid_json": (400, 10_025, "invalid JSON: {err}"),
    "memory_resources_exceeded": (500, 10_028, "insufficient memory resources available"),
    "no_account": (503, 10_035, "account not found"),
    "not_empty_request": (400, 10_038, "expected an empty request payload"),
    "not_enabled_for_account": (503, 10_039, "JetStream not enabled for account"),
    "storage_resources_exceeded": (500, 10_047, "insufficient storage resources available"),
    "stream_limits": (500, 10_053, "{err}"),
    "not_enabled": (503, 10_076, "JetStream not enabled"),
    "stream_max_bytes_required": (400, 10_113, "account requires a stream config to have max bytes set"),
    "no_limits": (400, 10_120, "no JetStream default or applicable tiered limit present"),
    "stream_max_stream_bytes_exceeded": (400, 10_122, "stream max bytes exceeds account limit max stream bytes"),
    "pedantic": (400, 10_157, "pedantic mode: {err}"),
    "required_api_level": (412, 10_185, "JetStream minimum api level required"),
    # stream: create, update, delete, info, purge
    "maximum_consumers_limit": (400, 10_026, "maximum consumers limit reached"),
    "maximum_streams_limit": (400, 10_027, "maximum number of streams reached"),
    "stream_create": (500, 10_049, "{err}"),
    "stream_delete": (500, 10_050, "{err}"),
    "stream_general_error": (500, 10_051, "{err}"),
    "stream_invalid_config": (500, 10_052, "{err}"),
    "stream_mirror_not_updatable": (400, 10_055, "stream mirror configuration can not be updated"),
    "stream_mismatch": (400, 10_056, "stream name in subject does not match request"),
    "stream_name_exist": (400, 10_058, "stream name already in use with a different configuration"),
    "stream_not_found": (404, 10_059, "stream not found"),
    "stream_subject_overlap": (400, 10_065, "subjects overlap with an existing stream"),
    "stream_update": (500, 10_069, "{err}"),
    "stream_replicas_not_supported": (500, 10_074, "replicas > 1 not supported in non-clustered mode"),
    "stream_invalid": (500, 10_096, "stream not valid"),
    "stream_sealed": (400, 10_109, "invalid operation on sealed stream"),
    "stream_purge_failed": (500, 10_110, "{err}"),
    "stream_name_contains_path_separators": (400, 10_128, "Stream name can not contain path separators"),
    "replicas_count_cannot_be_negative": (400, 10_133, "replicas count cannot be negative"),
    "stream_transform_invalid_source": (400, 10_155, "stream transform source: {err}"),
    "stream_transform_invalid_destination": (400, 10_156, "stream transform: {err}"),
    "stream_offline_reason": (500, 10_194, "stream is offline: {err}"),
    # messages: publish, get, delete
    "no_message_found": (404, 10_037, "no message found"),
    "sequence_not_found": (400, 10_043, "sequence {seq} not found"),
    "stream_message_exceeds_maximum": (400, 10_054, "message size exceeds maximum allowed"),
    "stream_msg_delete_failed": (500, 10_057, "{err}"),
    "stream_not_match": (400, 10_060, "expected stream does not match"),
    "stream_sequence_not_match": (503, 10_063, "expected stream sequence does not match"),
    "stream_wrong_last_msg_id": (400, 10_070, "wrong last msg ID: {id}"),
    "stream_wrong_last_sequence": (400, 10_071, "wrong last sequence: {seq}"),
    "stream_store_failed": (503, 10_077, "{err}"),
    "stream_header_exceeds_maximum": (400, 10_097, "header size exceeds maximum allowed of 64k"),
    "stream_rollup_failed": (500, 10_111, "{err}"),
    "stream_duplicate_message_conflict": (409, 10_158, "duplicate message id is in process"),
    "stream_wrong_last_sequence_constant": (400, 10_164, "wrong last sequence"),
    "message_ttl_invalid": (400, 10_165, "invalid per-message TTL"),
    "message_ttl_disabled": (400, 10_166, "per-message TTL is disabled"),
    "stream_too_many_requests": (429, 10_167, "too many requests"),
    "stream_expected_last_seq_per_subject_invalid": (
        400,
        10_193,
        "missing sequence for expected last sequence per subject",
    ),
    # counters
    "message_incr_disabled": (400, 10_168, "message counters is disabled"),
    "message_incr_missing": (400, 10_169, "message counter increment is missing"),
    "message_incr_payload": (400, 10_170, "message counter has payload"),
    "message_incr_invalid": (400, 10_171, "message counter increment is invalid"),
    "message_counter_broken": (400, 10_172, "message counter is broken"),
    "mirror_with_counters": (400, 10_173, "stream mirrors can not also calculate counters"),
    # atomic and fast batch publish
    "atomic_publish_disabled": (400, 10_174, "atomic publish is disabled"),
    "atomic_publish_missing_seq": (400, 10_175, "atomic publish sequence is missing"),
    "atomic_publish_incomplete_batch": (400, 10_176, "atomic publish batch is incomplete"),
    "atomic_publish_unsupported_header_batch": (400, 10_177, "atomic publish unsupported header used: {header}"),
    "atomic_publish_invalid_batch_id": (400, 10_179, "atomic publish batch ID is invalid"),
    "mirror_with_atomic_publish": (400, 10_198, "stream mirrors can not also use atomic publishing"),
    "atomic_publish_too_large_batch": (400, 10_199, "atomic publish batch is too large: {size}"),
    "atomic_publish_invalid_batch_commit": (400, 10_200, "atomic publish batch commit is invalid"),
    "atomic_publish_contains_duplicate_message": (400, 10_201, "atomic publish batch contains duplicate message id"),
    "batch_publish_disabled": (400, 10_205, "batch publish is disabled"),
    "batch_publish_invalid_pattern": (400, 10_206, "batch publish pattern is invalid"),
    "batch_publish_invalid_batch_id": (400, 10_207, "batch publish ID is invalid"),
    "batch_publish_unknown_batch_id": (400, 10_208, "batch publish ID unknown"),
    "mirror_with_batch_publish": (400, 10_209, "stream mirrors can not also use batch publishing"),
    "atomic_publish_too_many_inflight": (429, 10_210, "atomic publish too many inflight"),
    "batch_publish_too_many_inflight": (429, 10_211, "batch publish too many inflight"),
    # message schedules
    "mirror_with_msg_schedules": (400, 10_186, "stream mirrors can not also schedule messages"),
    "source_with_msg_schedules": (400, 10_187, "stream source can not also schedule messages"),
    "message_schedules_disabled": (400, 10_188, "message schedules is disabled"),
    "message_schedules_pattern_invalid": (400, 10_189, "message schedules pattern is invalid"),
    "message_schedules_target_invalid": (400, 10_190, "message schedules target is invalid"),
    "message_schedules_ttl_invalid": (400, 10_191, "message schedules invalid per-message TTL"),
    "message_schedules_rollup_invalid": (400, 10_192, "message schedules invalid rollup"),
    "message_schedules_source_invalid": (400, 10_203, "message schedules source is invalid"),
    "message_schedules_scheduler_invalid": (400, 10_212, "message schedules invalid scheduler"),
    "message_schedules_time_zone_invalid": (400, 10_223, "message schedules time zone is invalid"),
    # mirrors and sources
    "stream_external_api_overlap": (400, 10_021, "stream external api prefix {prefix} must not overlap with {subject}"),
    "stream_external_del_prefix_overlaps": (
        400,
        10_022,
        "stream external delivery prefix {prefix} overlaps with stream subject {subject}",
    ),
    "stream_invalid_external_delivery_subj": (
        400,
        10_024,
        "stream external delivery prefix {prefix} must not contain wildcards",
    ),
    "mirror_consumer_setup_failed": (500, 10_029, "{err}"),
    "mirror_max_message_size_too_big": (400, 10_030, "stream mirror must have max message size >= source"),
    "mirror_with_sources": (400, 10_031, "stream mirrors can not also contain other sources"),
    "mirror_with_subjects": (400, 10_034, "stream mirrors can not contain subjects"),
    "source_consumer_setup_failed": (500, 10_045, "{err}"),
    "source_max_message_size_too_big": (400, 10_046, "stream source must have max message size >= target"),
    "source_duplicate_detected": (400, 10_140, "duplicate source configuration detected"),
    "source_invalid_stream_name": (400, 10_141, "sourced stream name is invalid"),
    "mirror_invalid_stream_name": (400, 10_142, "mirrored stream name is invalid"),
    "mirror_with_first_seq": (400, 10_143, "stream mirrors can not have first sequence configured"),
    "source_multiple_filters_not_allowed": (
        400,
        10_144,
        "source with multiple subject transforms cannot also have a single subject filter",
    ),
    "source_invalid_subject_filter": (400, 10_145, "source transform source: {err}"),
    "source_invalid_transform_destination": (400, 10_146, "source transform: {err}"),
    "source_overlapping_subject_filters": (400, 10_147, "source filters can not overlap"),
    "mirror_multiple_filters_not_allowed": (
        400,
        10_150,
        "mirror with multiple subject transforms cannot also have a single subject filter",
    ),
    "mirror_invalid_subject_filter": (400, 10_151, "mirror transform source: {err}"),
    "mirror_overlapping_subject_filters": (400, 10_152, "mirror subject filters can not overlap"),
    "mirror_invalid_transform_destination": (400, 10_154, "mirror transform: {err}"),
    "mirror_durable_consumer_cfg_invalid": (400, 10_213, "stream mirror consumer config is invalid"),
    "mirror_consumer_requires_ack_fc": (400, 10_214, "stream mirror consumer requires flow control ack policy"),
    "source_durable_consumer_cfg_invalid": (400, 10_215, "stream source consumer config is invalid"),
    "source_durable_consumer_duplicate_detected": (400, 10_216, "duplicate stream source consumer detected"),
    "source_consumer_requires_ack_fc": (400, 10_217, "stream source consumer requires flow control ack policy"),
    # consumer: subject/name/identity
    "consumer_create": (500, 10_012, "{err}"),
    "consumer_name_exist": (400, 10_013, "consumer name already in use"),
    "consumer_not_found": (404, 10_014, "consumer not found"),
    "consumer_durable_name_not_in_subject": (
        400,
        10_016,
        "consumer expected to be durable but no durable name set in subject",
    ),
    "consumer_durable_name_not_match_subject": (
        400,
        10_017,
        "consumer name in subject does not match durable name in request",
    ),
    "consumer_durable_name_not_set": (400, 10_018, "consumer expected to be durable but a durable name was not set"),
    "consumer_ephemeral_with_durable_name": (
        400,
        10_020,
        "consumer expected to be ephemeral but a durable name was set in request",
    ),
    "consumer_config_required": (400, 10_078, "consumer config required"),
    "consumer_name_too_long": (400, 10_102, "consumer name is too long, maximum allowed is {max}"),
    "consumer_bad_durable_name": (400, 10_103, "durable name can not contain '.', '*', '>'"),
    "consumer_store_failed": (500, 10_104, "error creating store for consumer: {err}"),
    "consumer_existing_active": (400, 10_105, "consumer already exists and is still active"),
    "consumer_replacement_with_different_name": (400, 10_106, "consumer replacement durable config not the same"),
    "consumer_description_too_long": (400, 10_107, "consumer description is too long, maximum allowed is {max}"),
    "consumer_replicas_exceeds_stream": (400, 10_126, "consumer config replica count exceeds parent stream"),
    "consumer_name_contains_path_separators": (400, 10_127, "Consumer name can not contain path separators"),
    "consumer_create_filter_subject_mismatch": (
        400,
        10_131,
        "Consumer create request did not match filtered subject from create subject",
    ),
    "consumer_create_durable_and_name_mismatch": (
        400,
        10_132,
        "Consumer Durable and Name have to be equal if both are provided",
    ),
    "consumer_replicas_should_match_stream": (
        400,
        10_134,
        "consumer config replicas must match interest retention stream's replicas",
    ),
    "consumer_metadata_length": (400, 10_135, "consumer metadata exceeds maximum size of {limit}"),
    "consumer_already_exists": (400, 10_148, "consumer already exists"),
    "consumer_does_not_exist": (400, 10_149, "consumer does not exist"),
    "consumer_offline_reason": (500, 10_195, "consumer is offline: {err}"),
    # consumer: config
    "consumer_deliver_to_wildcards": (400, 10_079, "consumer deliver subject has wildcards"),
    "consumer_push_max_waiting": (400, 10_080, "consumer in push mode can not set max waiting"),
    "consumer_deliver_cycle": (400, 10_081, "consumer deliver subject forms a cycle"),
    "consumer_max_pending_ack_policy_required": (400, 10_082, "consumer requires ack policy for max ack pending"),
    "consumer_small_heartbeat": (400, 10_083, "consumer idle heartbeat needs to be >= 100ms"),
    "consumer_pull_requires_ack": (
        400,
        10_084,
        "consumer in pull mode requires explicit ack policy on workqueue stream",
    ),
    "consumer_pull_with_rate_limit": (400, 10_086, "consumer in pull mode can not have rate limit set"),
    "consumer_max_waiting_negative": (400, 10_087, "consumer max waiting needs to be positive"),
    "consumer_hb_requires_push": (400, 10_088, "consumer idle heartbeat requires a push based consumer"),
    "consumer_fc_requires_push": (400, 10_089, "consumer flow control requires a push based consumer"),
    "consumer_direct_requires_push": (400, 10_090, "consumer direct requires a push based consumer"),
    "consumer_direct_requires_ephemeral": (400, 10_091, "consumer direct requires an ephemeral consumer"),
    "consumer_invalid_policy": (400, 10_094, "{err}"),
    "consumer_invalid_sampling": (400, 10_095, "failed to parse consumer sampling configuration: {err}"),
    "consumer_wq_requires_explicit_ack": (400, 10_098, "workqueue stream requires explicit ack"),
    "consumer_wq_multiple_unfiltered": (400, 10_099, "multiple non-filtered consumers not allowed on workqueue stream"),
    "consumer_wq_consumer_not_unique": (400, 10_100, "filtered consumer not unique on workqueue stream"),
    "consumer_wq_consumer_not_deliver_all": (400, 10_101, "consumer must be deliver all on workqueue stream"),
    "consumer_with_flow_control_needs_heartbeats": (400, 10_108, "consumer with flow control also needs heartbeats"),
    "consumer_invalid_deliver_subject": (400, 10_112, "invalid push consumer deliver subject"),
    "consumer_max_request_batch_negative": (400, 10_114, "consumer max request batch needs to be > 0"),
    "consumer_max_request_expires_too_small": (400, 10_115, "consumer max request expires needs to be >= 1ms"),
    "consumer_max_deliver_backoff": (400, 10_116, "max deliver is required to be > length of backoff values"),
    "consumer_max_pending_ack_excess": (400, 10_121, "consumer max ack pending exceeds system limit of {limit}"),
    "consumer_max_request_batch_exceeded": (400, 10_125, "consumer max request batch exceeds server limit of {limit}"),
    "consumer_duplicate_filter_subjects": (
        400,
        10_136,
        "consumer cannot have both FilterSubject and FilterSubjects specified",
    ),
    "consumer_multiple_filters_not_allowed": (
        400,
        10_137,
        "consumer with multiple subject filters cannot use subject based API",
    ),
    "consumer_overlapping_subject_filters": (400, 10_138, "consumer subject filters cannot overlap"),
    "consumer_empty_filter": (400, 10_139, "consumer filter in FilterSubjects cannot be empty"),
    "consumer_inactive_threshold_excess": (400, 10_153, "consumer inactive threshold exceeds system limit of {limit}"),
    "consumer_ack_policy_invalid": (400, 10_181, "consumer ack policy invalid"),
    "consumer_replay_policy_invalid": (400, 10_182, "consumer replay policy invalid"),
    "consumer_ack_wait_negative": (400, 10_183, "consumer ack wait needs to be positive"),
    "consumer_back_off_negative": (400, 10_184, "consumer backoff needs to be positive"),
    "consumer_invalid_reset": (400, 10_204, "invalid reset: {err}"),
    "consumer_ack_fc_requires_push": (400, 10_218, "flow control ack policy requires a push based consumer"),
    "consumer_ack_fc_requires_fc": (400, 10_219, "flow control ack policy requires flow control"),
    "consumer_ack_fc_requires_max_ack_pending": (400, 10_220, "flow control ack policy requires max ack pending"),
    "consumer_ack_fc_requires_no_ack_wait": (400, 10_221, "flow control ack policy requires unset ack wait"),
    "consumer_ack_fc_requires_no_max_deliver": (400, 10_222, "flow control ack policy requires unset max deliver"),
    # priority groups
    "consumer_priority_policy_without_group": (
        400,
        10_159,
        "Setting PriorityPolicy requires at least one PriorityGroup to be set",
    ),
    "consumer_invalid_priority_group": (400, 10_160, "Provided priority group does not exist for this consumer"),
    "consumer_empty_group_name": (400, 10_161, "Group name cannot be an empty string"),
    "consumer_invalid_group_name": (
        400,
        10_162,
        "Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters",
    ),
    "consumer_push_with_priority_group": (400, 10_178, "priority groups can not be used with push consumers"),
    "consumer_priority_group_with_policy_none": (
        400,
        10_196,
        "consumer can not have priority groups when policy is none",
    ),
    "consumer_pinned_ttl_without_priority_policy_none": (
        400,
        10_197,
        "PinnedTTL cannot be set when PriorityPolicy is none",
    ),
    # snapshot, restore, templates
    "snapshot_deliver_subject_invalid": (400, 10_015, "deliver subject not valid"),
    "restore_subscribe_failed": (500, 10_042, "JetStream unable to subscribe to restore snapshot {subject}: {err}"),
    "stream_restore": (500, 10_062, "restore failed: {err}"),
    "stream_snapshot": (500, 10_064, "snapshot failed: {err}"),
    "stream_name_exist_restore_failed": (400, 10_130, "stream name already in use, cannot restore"),
    "stream_template_create": (500, 10_066, "{err}"),
    "stream_template_delete": (500, 10_067, "{err}"),
    "stream_template_not_found": (404, 10_068, "template not found"),
    "template_name_not_match_subject": (400, 10_073, "template name in subject does not match request"),
    # what a single server answers to cluster requests
    "cluster_required": (503, 10_010, "JetStream clustering support required"),
}
