"""The tables of keys: one row per plain key (its option and its type), and the names of what is not built yet.

A block's keys are matched in lower case. What needs more than a row (lists of users, `listen`, `jetstream: enabled`)
is a function of the loader.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from jetbroker.config import values

Reader: TypeAlias = Callable[[str, Any], Any]
Table: TypeAlias = Mapping[str, tuple[str, Reader]]

TOP: Table = {
    "host": ("host", values.string),
    "net": ("host", values.string),
    "port": ("port", values.integer),
    "server_name": ("server_name", values.server_name),
    "server_tags": ("server_tags", values.string_list),
    "debug": ("debug", values.boolean),
    "trace": ("trace", values.boolean),
    "logtime": ("logtime", values.boolean),
    "logtime_utc": ("logtime_utc", values.boolean),
    "log_file": ("log_file", values.string),
    "logfile": ("log_file", values.string),
    "pid_file": ("pid_file", values.string),
    "pidfile": ("pid_file", values.string),
    "ports_file_dir": ("ports_file_dir", values.string),
    "max_control_line": ("max_control_line", values.small_integer),
    "max_payload": ("max_payload", values.small_integer),
    "max_pending": ("max_pending", values.integer),
    "max_connections": ("max_connections", values.integer),
    "max_conn": ("max_connections", values.integer),
    "max_subscriptions": ("max_subscriptions", values.integer),
    "max_subs": ("max_subscriptions", values.integer),
    "max_closed_clients": ("max_closed_clients", values.integer),
    "http_port": ("http_port", values.integer),
    "monitor_port": ("http_port", values.integer),
    "http_base_path": ("http_base_path", values.string),
    "ping_interval": ("ping_interval", values.duration),
    "ping_max": ("ping_max", values.integer),
    "write_deadline": ("write_deadline", values.duration),
    "lame_duck_duration": ("lame_duck_duration", values.lame_duck_duration),
    "lame_duck_grace_period": ("lame_duck_grace_period", values.lame_duck_grace_period),
    "no_auth_user": ("no_auth_user", values.string),
    "system_account": ("system_account", values.system_account),
    "system": ("system_account", values.system_account),
}

AUTHORIZATION: Table = {
    "user": ("user", values.string),
    "username": ("user", values.string),
    "pass": ("password", values.string),
    "password": ("password", values.string),
    "token": ("token", values.string),
}

USER: Table = {
    "user": ("user", values.string),
    "username": ("user", values.string),
    "pass": ("password", values.string),
    "password": ("password", values.string),
}

ACCOUNT_JETSTREAM: Table = {
    **dict.fromkeys(("max_memory", "max_mem", "memory", "mem"), ("max_memory", values.limit)),
    **dict.fromkeys(("max_store", "max_file", "max_disk", "store", "disk"), ("max_store", values.limit)),
    **dict.fromkeys(("max_streams", "streams"), ("max_streams", values.limit)),
    **dict.fromkeys(("max_consumers", "consumers"), ("max_consumers", values.limit)),
    **dict.fromkeys(
        ("max_bytes_required", "max_stream_bytes", "max_bytes"), ("max_bytes_required", values.account_flag)
    ),
    **dict.fromkeys(("memory_max_stream_bytes", "mem_max_stream_bytes"), ("memory_max_stream_bytes", values.limit)),
    **dict.fromkeys(("store_max_stream_bytes", "disk_max_stream_bytes"), ("store_max_stream_bytes", values.limit)),
    "max_ack_pending": ("max_ack_pending", values.limit),
}

JETSTREAM: Table = {
    "enable": ("enabled", values.boolean),
    "enabled": ("enabled", values.boolean),
    **dict.fromkeys(("max_memory_store", "max_mem_store", "max_mem"), ("max_memory_store", values.storage_size)),
    **dict.fromkeys(("max_file_store", "max_file"), ("max_file_store", values.storage_size)),
    "domain": ("domain", values.string),
    "strict": ("strict", values.strict_flag),
    "max_buffered_msgs": ("max_buffered_msgs", values.limit),
    "max_buffered_size": ("max_buffered_size", values.storage_size),
}

STORE_DIR = ("store_dir", "storedir", "store")  # `store` only inside of `jetstream {}`

# What nats-server has and this broker has not. `<key>: false` is accepted: it asks for nothing.
TOP_UNSUPPORTED = frozenset(
    (
        "account_resolver accounts_resolver allow_non_tls client_advertise cluster connect_error_reports "
        "default_js_domain default_sentinel disable_sublist_cache feature_flags gateway "
        "https https_port jwt leaf leafnodes log_max_num log_size_limit logfile_max_num "
        "logfile_size_limit mappings maps max_sub_tokens max_traced_msg_len mqtt "
        "msg_trace no_fast_producer_stall no_header_support no_system_account ocsp ocsp_cache operator operators "
        "prof_block_rate prof_port proxies proxy_protocol reconnect_error_reports remote_syslog resolver "
        "resolver_pinned_accounts resolver_preload resolver_tls root roots root_operator root_operators "
        "server_metadata syslog tls trace_headers trace_verbose trusted trusted_keys websocket write_timeout ws"
    ).split()
)
AUTHORIZATION_UNSUPPORTED = frozenset(
    "default_permissions permissions auth_callout auth_hook proxy_required nkey".split()
)
USER_UNSUPPORTED = frozenset(
    (
        "nkey permissions permission authorization allowed_connection_types connection_types clients proxy_required"
    ).split()
)
ACCOUNT_UNSUPPORTED = frozenset(
    "nkey imports exports default_permissions mappings maps limits msg_trace trace_dest".split()
)
ACCOUNT_JETSTREAM_UNSUPPORTED = frozenset(("cluster_traffic",))
JETSTREAM_UNSUPPORTED = frozenset(
    (
        "cipher ek encryption_key extension_hint info_queue_limit key limits max_concurrent_io "
        "max_outstanding_catchup meta_compact meta_compact_size meta_compact_sync prev_encryption_key prev_key "
        "request_queue_limit tpm unique_tag"
    ).split()
)
