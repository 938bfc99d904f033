"""Every bound of the broker, named with its unit; the reason stands beside each."""

# --- wire ---
MAX_CONTROL_LINE_BYTES = 4096  # nats-server's default
MAX_PAYLOAD_BYTES = 1024 * 1024  # nats-server's default
MAX_PENDING_BYTES = 64 * 1024 * 1024  # per connection, before it is cut off as slow
MAX_CONNECTIONS = 65_536  # nats-server's default
MAX_SIZE_DIGITS = 9  # a longer size is a parse error in nats-server, whatever its value
READ_BUFFER_BYTES = 256 * 1024  # shared by all connections; stays in the L2 cache
OUTPUT_IDLE_BYTES = 64 * 1024  # output memory a connection may keep while it has nothing to send

# --- routing ---
ROUTE_CACHE_ENTRIES = 16_384  # literal subjects remembered per account

# --- timers ---
PING_INTERVAL_SECONDS = 120.0
PING_MAX_OUTSTANDING = 2
AUTH_TIMEOUT_SECONDS = 2.0
WRITE_DEADLINE_SECONDS = 10.0

# --- JetStream ---
JS_NAME_BYTES = 255
JS_DESCRIPTION_BYTES = 4096
JS_METADATA_BYTES = 128 * 1024
JS_HEADER_BYTES = 65_535
JS_API_QUEUE_REQUESTS = 10_000
JS_LIST_PAGE = 256
JS_NAMES_PAGE = 1024
JS_SUBJECTS_PAGE = 100_000
JS_MAX_WAITING_PULLS = 512
JS_MAX_ACK_PENDING = 1000
