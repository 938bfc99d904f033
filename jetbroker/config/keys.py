"""The tables of keys: one row per plain key (its option and its type), and the names of what is not built yet.

A block's keys are matched in lower case. What needs more than a row (lists of users, `listen`, `jetstream: enabled`)
is a function of the loader.
"""

from jetbroker.config import values
from jetbroker.config.report import Table

TOP: Table = {
    "host": ("host", values.string),
    "net": ("host", values.string),
    "port": ("port", values.integer),
    "server_name": ("server_name", values.server_name),
    "server_tags": ("server_tags", values.tags),
    "server_metadata": ("server_metadata", values.metadata),
    "client_advertise": ("client_advertise", values.string),
    "proxy_protocol": ("proxy_protocol", values.boolean),
    "allow_non_tls": ("allow_non_tls", values.boolean),
    "debug": ("debug", values.boolean),
    "trace": ("trace", values.boolean),
    "logtime": ("logtime", values.boolean),
    "logtime_utc": ("logtime_utc", values.boolean),
    "log_file": ("log_file", values.string),
    "logfile": ("log_file", values.string),
    **dict.fromkeys(("logfile_size_limit", "log_size_limit"), ("log_size_limit", values.integer)),
    **dict.fromkeys(("logfile_max_num", "log_max_num"), ("log_max_num", values.integer)),
    "max_traced_msg_len": ("max_traced_msg_len", values.integer),
    "syslog": ("syslog", values.boolean),
    "remote_syslog": ("remote_syslog", values.string),
    "connect_error_reports": ("connect_error_reports", values.integer),
    "reconnect_error_reports": ("reconnect_error_reports", values.integer),
    "pid_file": ("pid_file", values.string),
    "pidfile": ("pid_file", values.string),
    "ports_file_dir": ("ports_file_dir", values.string),
    "max_control_line": ("max_control_line", values.small_integer),
    "max_payload": ("max_payload", values.small_integer),
    "max_pending": ("max_pending", values.integer),
    **dict.fromkeys(("max_connections", "max_conn"), ("max_connections", values.connections)),
    "max_subscriptions": ("max_subscriptions", values.integer),
    "max_subs": ("max_subscriptions", values.integer),
    **dict.fromkeys(("max_sub_tokens", "max_subscription_tokens"), ("max_sub_tokens", values.subject_tokens)),
    "no_header_support": ("no_header_support", values.boolean),
    "no_fast_producer_stall": ("no_fast_producer_stall", values.boolean),
    **dict.fromkeys(("disable_sublist_cache", "no_sublist_cache"), ("disable_sublist_cache", values.boolean)),
    "max_closed_clients": ("max_closed_clients", values.integer),
    "http_port": ("http_port", values.integer),
    "monitor_port": ("http_port", values.integer),
    "https_port": ("https_port", values.integer),
    "ping_interval": ("ping_interval", values.duration),
    "ping_max": ("ping_max", values.integer),
    "write_deadline": ("write_deadline", values.duration),
    "write_timeout": ("write_timeout", values.write_timeout),
    "lame_duck_duration": ("lame_duck_duration", values.lame_duck_duration),
    "lame_duck_grace_period": ("lame_duck_grace_period", values.lame_duck_grace_period),
    "no_auth_user": ("no_auth_user", values.string),
    **dict.fromkeys(("no_system_account", "no_system", "no_sys_acc"), ("no_system_account", values.boolean)),
    "system_account": ("system_account", values.system_account),
    "system": ("system_account", values.system_account),
}

MONITORING: Table = {  # of the top level
    "http_base_path": ("base_path", values.string),
    "dashboard": ("dashboard", values.boolean),
    "dashboard_hosts": ("dashboard_hosts", values.host_names),
}

AUTHORIZATION: Table = {
    "user": ("user", values.string),
    "username": ("user", values.string),
    "pass": ("password", values.string),
    "password": ("password", values.string),
    "token": ("token", values.string),
    "proxy_required": ("proxy_required", values.boolean),
}

USER: Table = {
    "user": ("user", values.string),
    "username": ("user", values.string),
    "pass": ("password", values.string),
    "password": ("password", values.string),
    "nkey": ("nkey", values.string),
    **dict.fromkeys(
        ("allowed_connection_types", "connection_types", "clients"), ("connection_types", values.connection_types)
    ),
    "proxy_required": ("proxy_required", values.boolean),
}

RESPONSES: Table = {
    **dict.fromkeys(("max", "max_msgs", "max_messages", "max_responses"), ("max_msgs", values.integer)),
    **dict.fromkeys(("expires", "expiration", "ttl"), ("expires", values.response_expiry)),
}

ACCOUNT: Table = {"nkey": ("nkey", values.account_nkey)}

ACCOUNT_LIMITS: Table = {
    **dict.fromkeys(("max_connections", "max_conn"), ("max_connections", values.integer)),
    **dict.fromkeys(("max_subscriptions", "max_subs"), ("max_subscriptions", values.integer)),
    **dict.fromkeys(("max_payload", "max_pay"), ("max_payload", values.integer)),
    **dict.fromkeys(("max_leafnodes", "max_leafs"), ("max_leafnodes", values.integer)),
}

MSG_TRACE: Table = {
    "dest": ("destination", values.trace_destination),
    "sampling": ("sampling", values.trace_sampling),
}

IMPORT: Table = {
    "prefix": ("prefix", values.string),
    "to": ("to", values.string),
    "share": ("share", values.boolean),
}

TLS: Table = {
    "cert_file": ("cert_file", values.tls_file),
    "key_file": ("key_file", values.tls_file),
    "ca_file": ("ca_file", values.tls_file),
    "insecure": ("insecure", values.tls_flag),
    "timeout": ("timeout", values.tls_timeout),
    "connection_rate_limit": ("connection_rate_limit", values.tls_rate_limit),
    "min_version": ("min_version", values.tls_version),
}

WEBSOCKET: Table = {
    "port": ("port", values.integer),
    "host": ("host", values.string),
    "net": ("host", values.string),
    "advertise": ("advertise", values.string),
    "no_tls": ("no_tls", values.boolean),
    "same_origin": ("same_origin", values.boolean),
    **dict.fromkeys(("compress", "compression"), ("compression", values.boolean)),
    "handshake_timeout": ("handshake_timeout", values.handshake_timeout),
    "jwt_cookie": ("jwt_cookie", values.string),
    "user_cookie": ("user_cookie", values.string),
    "pass_cookie": ("pass_cookie", values.string),
    "token_cookie": ("token_cookie", values.string),
    "no_auth_user": ("no_auth_user", values.string),
    "ping_interval": ("ping_interval", values.duration),
}

WEBSOCKET_AUTHORIZATION: Table = {
    "user": ("user", values.string),
    "username": ("user", values.string),
    "pass": ("password", values.string),
    "password": ("password", values.string),
    "token": ("token", values.string),
    "timeout": ("auth_timeout", values.number_of_seconds),
}

LEAFNODES: Table = {
    "port": ("port", values.integer),
    **dict.fromkeys(("host", "net"), ("host", values.string)),
    **dict.fromkeys(("leafnode_advertise", "advertise"), ("advertise", values.string)),
    "no_advertise": ("no_advertise", values.boolean),
    **dict.fromkeys(("isolate_leafnode_interest", "isolate"), ("isolate_leafnode_interest", values.boolean)),
    "write_deadline": ("write_deadline", values.duration),
    "write_timeout": ("write_timeout", values.write_timeout),
    **dict.fromkeys(("reconnect", "reconnect_delay", "reconnect_interval"), ("reconnect", values.reconnect)),
    "dial_timeout": ("dial_timeout", values.duration),
    **dict.fromkeys(("min_version", "minimum_version"), ("min_version", values.leaf_version)),
}

LEAF_AUTHORIZATION: Table = {
    "user": ("user", values.string),
    "username": ("user", values.string),
    "pass": ("password", values.string),
    "password": ("password", values.string),
    "nkey": ("nkey", values.leaf_nkey),
    "account": ("account", values.string),
    "proxy_required": ("proxy_required", values.boolean),
}

LEAF_USER: Table = {
    "user": ("user", values.string),
    "username": ("user", values.string),
    "pass": ("password", values.string),
    "password": ("password", values.string),
    "account": ("account", values.string),
    "proxy_required": ("proxy_required", values.boolean),
}

LEAF_REMOTE: Table = {
    **dict.fromkeys(("no_randomize", "dont_randomize"), ("no_randomize", values.boolean)),
    **dict.fromkeys(("account", "local"), ("account", values.string)),
    "hub": ("hub", values.boolean),
    **dict.fromkeys(
        ("ws_compress", "ws_compression", "websocket_compress", "websocket_compression"),
        ("ws_compression", values.boolean),
    ),
    **dict.fromkeys(("ws_no_masking", "websocket_no_masking"), ("ws_no_masking", values.boolean)),
    **dict.fromkeys(("isolate_leafnode_interest", "isolate"), ("isolate_leafnode_interest", values.boolean)),
    "request_isolation": ("request_isolation", values.boolean),
    "first_info_timeout": ("first_info_timeout", values.duration),
    "dial_timeout": ("dial_timeout", values.duration),
    "disabled": ("disabled", values.boolean),
    "ignore_discovered_servers": ("ignore_discovered_servers", values.boolean),
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
    "tech_preview_api": ("tech_preview_api", values.boolean),
    "request_queue_limit": ("request_queue_limit", values.limit),
    "info_queue_limit": ("info_queue_limit", values.limit),
    "max_outstanding_catchup": ("max_outstanding_catchup", values.storage_size),
}

JETSTREAM_LIMITS: Table = {
    "max_request_batch": ("max_request_batch", values.integer),
    "max_ack_pending": ("max_ack_pending", values.integer),
    "max_ha_assets": ("max_ha_assets", values.integer),
    "duplicate_window": ("duplicate_window", values.duration),
}

JETSTREAM_BATCHES: Table = {
    "max_msgs": ("max_msgs", values.integer),
    "max_inflight_per_stream": ("max_inflight_per_stream", values.integer),
    "max_inflight_total": ("max_inflight_total", values.integer),
    "timeout": ("timeout", values.duration),
}

JETSTREAM_SHIP: Table = {
    "url": ("url", values.ship_url),
    "interval": ("interval", values.ship_interval),
    "rate": ("rate", values.byte_rate),
    "unsealed": ("unsealed", values.boolean),
    "check": ("check", values.boolean),
    "keep_dropped": ("keep_dropped", values.kept_duration),
}

OPERATOR_MODE = (
    "operator operators root roots root_operator root_operators trusted trusted_keys resolver account_resolver "
    "accounts_resolver resolver_preload resolver_pinned_accounts"
).split()

# Options that are read, shown and compared at a reload, and that change nothing here.
WITHOUT_EFFECT = frozenset(
    "disable_sublist_cache max_buffered_msgs max_buffered_size max_ha_assets max_outstanding_catchup".split()
)

STORE_DIR = ("store_dir", "storedir", "store")  # `store` only inside of `jetstream {}`

# What nats-server has and this broker has not. `<key>: false` is accepted: it asks for nothing.
TOP_UNSUPPORTED = frozenset(
    ("cluster feature_flags gateway mqtt ocsp ocsp_cache prof_block_rate prof_port proxies resolver_tls").split()
)
AUTHORIZATION_UNSUPPORTED = frozenset(("auth_callout", "auth_hook"))
LEAF_REMOTE_UNSUPPORTED = frozenset(("jetstream_cluster_migrate", "js_cluster_migrate", "proxy"))
EXPORT_UNSUPPORTED = frozenset(("latency",))
TLS_UNSUPPORTED = frozenset(
    "ocsp_peer cert_store cert_match_by cert_match cert_match_skip_invalid ca_certs_match".split()
)
ACCOUNT_JETSTREAM_UNSUPPORTED = frozenset(("cluster_traffic",))
JETSTREAM_UNSUPPORTED = frozenset(
    (
        "cipher ek encryption_key extension_hint key max_concurrent_io meta_compact meta_compact_size "
        "meta_compact_sync prev_ek prev_encryption_key prev_key tpm unique_tag"
    ).split()
)
