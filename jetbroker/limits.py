"""Every bound of the broker, named with its unit; the reason stands beside each."""

# Between two looks for cycles, by generation: seldom, as a look costs throughput, but often enough that what a hundred
# deleted streams leave is freed in about 10 ms.
COLLECTED_AFTER = (2_000, 5, 5)
LONG_LOOK_NS = 10_000_000  # through all objects; what a longer one has left is not walked again

# --- wire ---
MAX_CONTROL_LINE_BYTES = 4096  # nats-server's default
MAX_PAYLOAD_BYTES = 1024 * 1024  # nats-server's default
MAX_PENDING_BYTES = 64 * 1024 * 1024  # per connection, before it is cut off as slow
MAX_CONNECTIONS = 65_536  # nats-server's default
MAX_SIZE_DIGITS = 9  # a longer size is a parse error in nats-server, whatever its value
LOGGED_INPUT_BYTES = 32  # of what a client sent wrong
UNREAD_RESET_BYTES = 512  # behind a fault, from which on a connection ends with a reset: nats-server's first read
READ_BUFFER_BYTES = 256 * 1024  # shared by all connections; stays in the L2 cache
PUT_OFF_READS = 3  # that filled the buffer: what they send to one receiver goes out with what the next read sends it
OUTPUT_IDLE_BYTES = 4 * 1024  # output memory a connection may keep from one sweep to the next with nothing to send
SOFT_PENDING_BYTES = 1024 * 1024  # a receiver this far behind slows its publishers while it takes bytes at all
TRANSPORT_PROBE_BYTES = 16 * 1024  # handed to the transport when the kernel is full, to be told when it drains
TRANSPORT_LAYER_BYTES = 64 * 1024  # handed to TLS or a WebSocket at once: what it makes of them counts as not pending
RECEIVER_PROGRESS_NS = 10_000_000  # a receiver that took nothing for so long no longer slows anybody
PUBLISHER_STALL_SECONDS = 0.01  # the longest one stall lasts, as in nats-server
SWEEP_SECONDS = 1.0  # pings, login time-outs and idle memory are looked at so often
SHORTEST_SWEEP_SECONDS = 0.05  # with a short ping_interval

SAME_ERROR_SECONDS = 60.0  # between two lines of the log about the same thing at many connections

CLOSED_CONNECTIONS = 10_000  # remembered for monitoring, nats-server's default
CLOSED_CONNECTION_SUBSCRIPTIONS = 16  # of each that are remembered: a few kilobytes in all
CLOSED_CONNECTION_SUBJECT_BYTES = 1024  # and the text of these

# --- before authentication ---
UNAUTHENTICATED_BYTES = 32 * 1024 * 1024  # kept for all who have not logged in; the one who has kept longest goes
TRIM_AFTER_CONNECTIONS = 1000  # that are gone: then unused memory goes back to the system
UNAUTHENTICATED_OBJECT_BYTES = 1024  # what keeping something costs besides the bytes
WEBSOCKET_LOGIN_BYTES = 64 * 1024  # that a message may inflate to from a client that has to log in

# --- WebSocket ---
WEBSOCKET_HEADER_BYTES = 16 * 1024  # request line and headers of one request
WEBSOCKET_REQUESTS = 16  # of one connection that are refused
WEBSOCKET_BODY_BYTES = 64 * 1024  # of a refused request; nothing reads it
WEBSOCKET_HTTP_BYTES = 8 * 1024  # an HTTP parser at work
WEBSOCKET_MESSAGE_PAYLOADS = 8  # a compressed message may inflate to so many times max_payload
WEBSOCKET_MESSAGE_BYTES = 64 * 1024 * 1024  # and never more than this, nats-server's bounds
WEBSOCKET_PIECE_BYTES = 64 * 1024  # of a frame or of what it inflates to, at once; longer frames are taken apart
WEBSOCKET_TURN_BYTES = 256 * 1024  # of one client before the others get their turn
WEBSOCKET_FRAME_COST_BYTES = 256  # an empty frame takes the time of so many bytes
WEBSOCKET_PONG_BYTES = 16 * 1024  # unsent, after which a client that only asks gets no more answers
WEBSOCKET_INFLATER_BYTES = 48 * 1024  # zlib's window and state
WEBSOCKET_COMPRESSED_BYTES = 64  # shorter output is sent as it is
WEBSOCKET_BROWSER_FRAME_BYTES = 4096  # browsers do better with small frames

# --- TLS and PROXY headers ---
TLS_FIRST_READ_BYTES = 4096  # read at once from a connection that has not brought much: a handshake is less
TLS_READ_BYTES = 64 * 1024  # later; the TLS library keeps as much memory per connection as one read brought
TLS_LARGE_READS_AFTER_BYTES = 64 * 1024
TLS_HANDSHAKES = 1024  # at the same time: each keeps up to 70 KB
TLS_HANDSHAKE_SECONDS = 2.0  # one that takes longer has to go when others wait, nats-server's default for all
TLS_HELLO_SECONDS = 0.5  # one whose first words are not whole by then, likewise
TLS_QUEUE_SECONDS = 0.05  # between two looks at who takes too long
PROXY_HEADER_SECONDS = 5.0  # nats-server's, for the first bytes and for the rest

# --- turns: what one connection may have done before the others have theirs, in units of about 50 ns ---
TURN_UNITS = 65_536  # three milliseconds
TURN_NS = 3_000_000  # the same for work that is measured by the clock: API requests, direct gets, long answers
LOOK_UP_UNITS = 40  # a subject that no route is known of, a subscription made or removed
ANSWER_UNITS = 10  # a PONG, an error that is not logged
JUDGED_PUBLISH_UNITS = 40  # a publish whose headers a stream acts on
SCHEDULE_UNITS = 1000  # one that is a schedule, or ends one: judged in Python
ROUTES_PER_UNIT = 32  # looked through for a subscription with wildcards; where it begins with one, each is a unit
SERVICE_UNITS = 80  # a request to another account, or its answer
EVENT_UNITS = 400  # handled in Python: CONNECT, INFO, a refusal with its line in the log
TRACED_HEADER_UNITS = 2  # each byte of headers that ask for a trace: they are read in Python
RETIRE_NS = 2_000_000  # removing the subscriptions of a connection that is gone, per iteration of the event loop
INTEREST_AT_ONCE = 1024  # entries that a new link is told at once, the others in turns
INTEREST_LINES_BYTES = 16_384  # of LS+ and LS- lines are written at once

LISTEN_BACKLOG = 4096  # connections that may wait to be accepted; the kernel's own bound is often lower

# --- routing ---
ROUTE_CACHE_ENTRIES = 16_384  # literal subjects remembered per account
ROUTE_CACHE_RECEIVERS = 1_048_576  # of all of them together, about 120 bytes each
SUBJECT_NODES = 32  # of one subscription, one a token; the tokens behind these share one while no other parts from them
MAPPING_CACHE_ENTRIES = 2048  # published subjects whose mapping is remembered, per account with mappings
SERVICE_RESPONSES = 262_144  # answers that one account's services still owe to others; the oldest makes room
IMPORT_DEPTH = 1024  # accounts that imports may lead through, nats-server's bound

# --- operator mode ---
TOKEN_BYTES = 1024 * 1024  # of one token, the bound of nats-server's library
TOKEN_SUBJECTS = 4096  # that one entry of a scope's template may become, by several values of a tag
TOKEN_PLACEHOLDERS = 64  # different ones in one entry

# --- permissions ---
PERMISSION_VERDICTS = 2048  # literal subjects per user whose verdict is remembered
PERMISSION_ENTRY_BYTES = 64  # a look at one entry takes the time of so many bytes of a subject
PERMISSION_BYTES_PER_UNIT = 128  # compared in one unit of a turn
RESPONSE_SUBJECTS = 65_536  # reply subjects that one client may still answer; past it the older half is forgotten
RESPONSE_PRUNE_MESSAGES = 4096  # so often, or once a second, what is used up or too old is forgotten
RESPONSE_PRUNE_NS = 1_000_000_000

# --- timers ---
LIMIT_REPORT_SECONDS = 2.0  # the log tells of clients that have too many subscriptions no more often
PING_INTERVAL_SECONDS = 120.0
PING_MAX_OUTSTANDING = 2
ROUND_TRIP_SECONDS = 3600.0  # a client that is heard of is asked for its round trip time no more often
AUTH_TIMEOUT_SECONDS = 2.0
TLS_TIMEOUT_SECONDS = 2.0  # for a handshake
WEBSOCKET_HANDSHAKE_SECONDS = 2.0  # from accept to the upgrade
PASSWORD_THREADS = 2  # check bcrypt hashes: each keeps a core busy for a tenth of a second and more
PASSWORD_QUEUE = 256  # checks of one address that wait; past it the oldest of the name with most is refused
PASSWORD_MEASURES = 32  # times that the last checks took: those of checks that are not made are drawn from them
PASSWORD_MEASURE_SECONDS = 10.0  # without a check of the dearest hash, after which one is made to be measured
PASSWORDS_REMEMBERED = 4096  # digests of good ones, and of wrong ones
PASSWORD_REMEMBERED_SECONDS = 300.0  # since it was last given: many reconnects at once cost one check
PASSWORD_NICENESS = 10  # of these threads, so that the event loop goes first
STOP_FLUSH_SECONDS = 1.0  # at the end, for what is queued for clients to be sent
WRITE_DEADLINE_SECONDS = 10.0
LEAF_RECONNECT_SECONDS = 1.0  # until a remote is dialled again
LEAF_DIAL_SECONDS = 1.0  # until a remote has taken the connection
LEAF_FIRST_INFO_SECONDS = 1.0  # from then to its INFO
LEAF_URLS = 1000  # of other servers of a cluster that a remote remembers
LINK_QUEUE_BYTES = 32 * 1024  # of names of queue groups with one message: peers read no line over 64 KiB
LINK_INFO_SECONDS = 1.0  # between two changes of a link's permissions by its hub
LINK_CONTROL_LINES = 16  # a link's control line may have so many times the bytes of a client's
LAME_DUCK_DURATION_SECONDS = 120.0  # over which clients are closed
LAME_DUCK_STEP_SECONDS = 1.0  # the longest wait between two of them
LAME_DUCK_GRACE_SECONDS = 10.0  # before the first one is closed

# --- JetStream ---
JSON_EXACT_BYTES = 64 * 1024  # of a refused body that is read again to word the refusal: about a millisecond
JSON_CONTAINERS = 10_000  # lists and objects of one body: some milliseconds, with the garbage collector's share
JSON_KEYS = 20_000  # of the objects in one body, and colons in its texts
JS_NAME_BYTES = 255
JS_SUBJECT_TOKENS = 8192  # of a stream's, filter's or transform's subject: clients send 2,048 (MAX_CONTROL_LINE)
JS_SUBJECTS = 10_000  # of a stream, and filters of a consumer: garbage collections walk over what compares them
JS_BATCH_LOOKED_AT = 300_000  # subjects that one batch's expectations with wildcards are compared with
JS_DESCRIPTION_BYTES = 4096
JS_METADATA_BYTES = 128 * 1024
JS_HEADER_BYTES = 65_535
JS_RECORD_BYTES = 32 * 1024 * 1024  # of one message of a file stream or a backup, nats-server's bound
JS_API_QUEUE_REQUESTS = 10_000
JS_API_QUEUE_BYTES = 128 * 1024 * 1024  # that the requests waiting in one account keep, and their answers
JS_API_SERVER_BYTES = 512 * 1024 * 1024  # those of all accounts
JS_API_CLIENT_BYTES = 32 * 1024 * 1024  # those of one client
JS_API_REQUEST_BYTES = 512  # what keeping a request costs besides its bytes
JS_LIST_PAGE = 256
JS_NAMES_PAGE = 1024
JS_SUBJECTS_PAGE = 100_000
JS_PAGE_BYTES = 16 * 1024 * 1024  # of one page of streams or consumers; longer ones end early, clients ask for the rest
JS_MAX_WAITING_PULLS = 512
JS_TEMPLATES = 100  # stream templates of an account
JS_TEMPLATE_STREAMS = 10_000  # of one template: its INFO lists them; and subjects that wait for their stream
JS_TEMPLATE_WAITING_BYTES = 64 * 1024 * 1024  # of an account's messages that wait for their streams
JS_TEMPLATE_RETRY_SECONDS = 1.0  # after a stream was refused, until its subject is tried again
JS_TEMPLATE_REPORT_SECONDS = 1.0  # between two lines of the log about subjects that got no stream
JS_SOURCING_CONSUMERS = 256  # of mirrors and sources, per stream: beside max_consumers, when there is one
JS_MAX_ACK_PENDING = 1000
JS_OVERLAP_STEPS = 1_000_000  # comparing the subjects of one request, in turns: a few seconds of its account's lane
JS_UNCOMMITTED_BYTES = 128 * 1024 * 1024  # per stream, accepted while the disk is busy; then publishes get 10167
JS_BATCH_BYTES = 64 * 1024 * 1024  # of one atomic batch, in memory until its last message comes
JS_STAGED_BYTES = 256 * 1024 * 1024  # of all atomic batches of the server
JS_EVICTIONS_PER_TICK = 20_000  # looked at for lost interest, within JS_WORK_NS
JS_LOOKED_THROUGH = 100_000  # sequences behind the ack floor of a consumer of an interest stream that is deleted
JS_PURGED_AT_ONCE = 32_768  # messages of a stream that is emptied in one piece, with a subject each
JS_EVICTED_AT_ONCE = 1024  # a millisecond; a large message may take the place of a million small ones
JS_REPLACED_AT_ONCE = 1024  # messages of a stream whose roll-ups are not done in turns: a millisecond
JS_DEDUP_START_NS = 1_000_000_000  # of one stream's start, to read its duplicate window; the rest is read in turns
JS_ORIGIN_ANSWER_BYTES = 256 * 1024  # to a request for a consumer; nats-server's metadata may have half of it
JS_LOGGED_CHARS = 1024  # of what is wrong with a request
JS_ORIGIN_ERROR_CHARS = 1024  # of an origin's error, kept and shown
JS_ORIGIN_FLOW_REQUESTS = 64  # of one origin, that wait for a commit; a consumer has one of them out
JS_CYCLE_STEPS = 10_000  # of streams and origins in the search for cycles: a few milliseconds
JS_WORK_NS = 2_000_000  # per iteration of the event loop: what streams restore, fire and let expire
JS_COUNT_SLOTS = 16_384  # sequences counted or looked through for a consumer at once: some 30 microseconds
JS_CHOSEN_SLOTS = (
    2048  # sequences of which last_per_subject chooses at once: a millisecond when each has its own subject
)
JS_JUDGED_SUBJECTS = 2048  # compared with a consumer's filters at once: 0.2 ms, 2 ms with thousands of filters
JS_WATCHDOG_SECONDS = 1.0  # between two looks at each consumer
JS_WATCHDOG_LINES = 10  # in the log after one look
JS_DEAD_LETTER_REASON_BYTES = 1024  # of what a client gives as the reason of +TERM, in a header of the dead letter
JS_DEAD_LETTER_COMMIT_NS = 2_000_000  # between two looks whether a dead letter is durable: less than most disks take
JS_DEAD_LETTER_FIRST_WAIT_NS = 1_000_000_000  # after a refused dead letter; each refusal doubles it
JS_DEAD_LETTER_LONGEST_WAIT_NS = 60_000_000_000
JS_DUE_AT_ONCE = 1024  # redeliveries that one consumer queues, and acks it passes to its stream, at once: 2 ms
JS_START_SUBJECTS = 16  # a start in time looks for the first messages of no more
JS_FEW_SUBJECTS = 1024  # so many are all looked at where nobody waits for a turn
JS_SCHEDULE_SLOTS = 1000  # looked at between two looks at the clock, for schedules or for what has replaced one
JS_TTL_SLOTS_PER_TICK = 20_000  # looked at after a start for messages with a TTL: a few milliseconds
JS_MULTI_LAST_SUBJECTS = 1024  # nats-server's bound of one direct get
JS_DIRECT_BYTES_PER_TICK = 1024 * 1024  # of all batches of one stream: others get their turn in between
JS_DIRECT_REQUESTS = 10_000  # direct gets of one stream that wait or are being answered; more get status 429
JS_DIRECT_REQUEST_BYTES = 32 * 1024 * 1024  # and their bodies
JS_ACK_UNITS = 20  # of its client's turn, a microsecond
JS_PULL_REQUEST_UNITS = 100  # of its client's turn, five microseconds, and its body's
JS_DIRECT_REQUEST_UNITS = 100  # of its client's turn, five microseconds

# --- store ---
STREAM_COLUMN_BYTES = 64 * 1024 * 1024  # of one stream's sealed segments: where their messages are, 40 bytes for each
STREAM_COLUMN_FILES = 64  # open files of one stream for those; four segments always stay
STORE_COLUMN_FILES = 512  # of all streams together, beyond those four
STREAM_SKIP_SEQUENCE = (
    2**62
)  # the farthest that first_seq, a purge or an origin moves a stream: its end stays beyond reach
STREAM_LAST_SEQUENCE = 2**63 - 2**33  # the end of a stream; a sequence and the slots of a segment add up to 63 bits
STREAM_EMPTY_SLOTS = 65_536  # of skipped sequences in one segment, 20 bytes each; more of them begin a new one
JS_DELETED_LISTED = 100_000  # sequences of deleted or damaged messages in one answer: two megabytes of text
STORAGE_RETRY_SECONDS = 0.1  # after a failed write or fdatasync; twice as long after each further one
STORAGE_RETRY_MAX_SECONDS = 5.0
STORAGE_PROBE_BYTES = 1024 * 1024  # that a file must have room for before a full disk counts as working: any message
STORAGE_REPORT_SECONDS = 10.0  # what fails and works by turns is told no more often

# --- logs ---
SELDOM_WARNINGS = 256  # different ones a second that whoever asks or publishes can cause
SYSLOG_CONNECT_SECONDS = 3.0  # at the start; later attempts wait for nothing
SYSLOG_RETRY_SECONDS = 1.0  # between two attempts to reach a receiver that went away
SYSLOG_PENDING_BYTES = 1024 * 1024  # of lines that a receiver has not taken yet; more are lost

# --- configuration files ---
CONFIG_MAX_NESTING = 200  # open `{` and `[`; keeps everything that walks the tree away from Python's recursion limit
CONFIG_MAX_BYTES = 16 * 1024 * 1024  # of one file; a device or a log named by mistake is refused instead of read
CONFIG_MAX_VALUES = 4_000_000  # each variable counted as all it stands for: seconds of reading, and a gigabyte
CONFIG_MAX_INCLUDES = 1000  # files in all, so that includes which include each other twice end
CONFIG_MAX_MISSING = 100  # variables that stand for nothing, told at once

# --- monitoring ---
TRACE_STEPS = 16_384  # of one message that a trace tells of
SYSTEM_REQUESTS = 256  # messages to `$SYS.REQ.` that are being answered; more get no answer
SYSTEM_REQUEST_BYTES = 16 * 1024 * 1024  # and their bodies
SYSTEM_OPTIONS = 64  # of one such request that are looked at; there are about 30
SYSTEM_OPTION_CHARACTERS = 8192  # of an option's value; what is longer than a protocol line names nothing
ACCOUNT_BEAT_SECONDS = 30.0  # between two events that tell an account's connections though nothing has changed
ACCOUNT_EVENTS_SECONDS = 0.1  # least between two of them: they count all traffic, and ten thousand may connect at once
EVENT_ID_CHARACTERS = 22  # as nats-server's
FIRST_STATSZ_SECONDS = 0.25  # until other servers are told of this one first, and again when a link has come or gone
MOST_STATSZ_SECONDS = 10.0  # between two of these, by and by
STATSZ_SECONDS = 1.0  # least between two of these
SILENT_SERVER_SECONDS = 150.0  # without a word of itself, and another server is not counted any more
KNOWN_SERVERS = 1024  # that are counted; whoever may publish in the system account could name as many as he likes
SERVER_ID_CHARACTERS = 256  # of their ids; nats-server's have 56
MONITOR_CONNECTIONS = 128  # at the same time; a scraper and a few people need less than ten
MONITOR_HEADER_BYTES = 16 * 1024  # request line and headers of one request
MONITOR_HEADERS = 100  # of one request
MONITOR_BODY_BYTES = 64 * 1024  # of one request; nothing reads it
MONITOR_REQUEST_SECONDS = 10.0  # from the first byte of a request to its end
MONITOR_IDLE_SECONDS = 60.0  # an open connection between two requests
MONITOR_WRITE_SECONDS = 30.0  # for the client to take an answer
MONITOR_ANSWERS = 2  # made at the same time: a long one does not keep a health probe waiting
MONITOR_PENDING_BYTES = 64 * 1024 * 1024  # of answers that clients still take; more requests get 503 meanwhile
MONITOR_ROWS = 65_536  # connections, subscriptions, or streams in one answer, whatever its limit says
MONITOR_ANSWER_BYTES = 64 * 1024 * 1024  # of JSON, before it is indented; what has more is refused
MONITOR_SUBSCRIPTIONS = 262_144  # listed in one answer about connections
DASHBOARD_VIEWERS = 16  # pages that are kept up to date at the same time; more get 503
DASHBOARD_SECONDS = 1.0  # between two looks at the broker, for all pages together
DASHBOARD_SHARE = 5  # a look that took a second is followed by the next one after so many
DASHBOARD_KEPT_SECONDS = 10.0  # a look older than this is no base for rates, and is forgotten
DASHBOARD_TOP = 10  # rows of a table in one event
DASHBOARD_PAGE = 25  # rows of a table that is searched or sorted otherwise
DASHBOARD_TEXT = 200  # characters of a name or subject that is shown
DASHBOARD_PROBLEMS = 20  # of one kind that are named
DASHBOARD_MESSAGES = 20  # of a stream in one answer
DASHBOARD_STEPS = 4096  # sequences looked through for them
DASHBOARD_PREVIEW_BYTES = 2048  # of a payload in that list
DASHBOARD_MESSAGE_BYTES = 64 * 1024  # of the payload, and of the headers, of a message that is looked at
DASHBOARD_FAILURES = 10  # wrong logins from one network at once, and then one each DASHBOARD_FAILURE_SECONDS
DASHBOARD_FAILURE_SECONDS = 1.0
DASHBOARD_NETWORKS = 4096  # whose wrong logins are remembered

# --- backup and restore ---
JS_ARCHIVE_BLOCK_BYTES = 4 * 1024 * 1024  # of messages in one block that is written, and a last message
JS_ARCHIVE_GAPS = 16_384  # gaps between sequences that take a new segment each
JS_ARCHIVE_MEMBERS = 262_144  # files in an archive: 2 TB of messages
JS_ARCHIVE_CONFIG_BYTES = 1024 * 1024  # of one configuration
JS_ARCHIVE_STATE_BYTES = 32 * 1024 * 1024  # of one consumer's state
JS_ARCHIVE_INDEX_BYTES = 64 * 1024 * 1024  # of nats-server's index; one that is larger is not read
JS_ARCHIVE_STATES_BYTES = 128 * 1024 * 1024  # of all consumers' configurations and states, in memory
JS_ARCHIVE_HEADER_BYTES = 65_536  # that describe one file in an archive
JS_TRANSFERS = 16  # backups and restores under way in one account
JS_BACKUP_CHUNK_BYTES = 128 * 1024  # as nats-server's, when the request does not say
JS_BACKUP_CHUNK_RANGE = (1024, 1024 * 1024)
JS_BACKUP_WINDOW_BYTES = 8 * 1024 * 1024  # of chunks without an answer
JS_BACKUP_WINDOW_RANGE = (1024, 32 * 1024 * 1024)
JS_BACKUP_TURN_BYTES = 512 * 1024  # of chunks that go out together; the others' messages go before the next ones
JS_BACKUP_INTEREST_SECONDS = 2.0  # for somebody to listen
JS_BACKUP_ANSWER_SECONDS = 5.0  # for the answer to some chunk
JS_RESTORE_IDLE_SECONDS = 5.0  # between two chunks
JS_RESTORE_WAITING_BYTES = 32 * 1024 * 1024  # of chunks that were sent without waiting for an answer
JS_RESTORE_CHUNK_BYTES = 512  # that each chunk counts beside its own
JS_RESTORE_STEP_BYTES = 1024 * 1024  # that are taken together, when they have come
JS_RESTORE_COMMIT_BYTES = 8 * 1024 * 1024  # that go to disk together; as much again is read meanwhile
JS_TRANSFER_STEP_NS = 500_000  # of one step; what it writes takes as long again

# --- store files: what stands in them may be another's, so what it costs is bounded by their size and by these ---
SEGMENT_GAP_SLOTS = 524_288  # sequences without a message in one segment: 10 MB of columns; written are fewer
SEGMENT_GAP_BYTES = 16  # of a segment's records for each further one
SEGMENT_PLAIN_BYTES = 256 * 1024 * 1024  # a packed segment unpacks to: 64 MB, and a batch or record that is larger
SEGMENT_FOOTER_BYTES = 256 * 1024 * 1024  # a packed segment's footer unpacks to
ZSTD_WINDOW_BYTES = 8 * 1024 * 1024  # a frame may ask for while it is unpacked; the packer's own ask for 512 KB
CONSUMER_PENDING = 262_144  # unacknowledged at once by a state log, besides the messages that the stream still has
CONSUMER_REPLAY_STEPS = 64 * 1024 * 1024  # messages delivered or looked through by all records of a state log

# --- shipping ---
SHIP_REPORT_SECONDS = 600.0  # between two lines of the log about the same failure
SHIP_URL_CHARACTERS = 2048

# --- offline reader ---
READER_BATCH_ROWS = 8192  # larger Arrow batches leave the caches
READER_BATCH_BYTES = 16 * 1024 * 1024  # of headers and payload in one batch, whatever its rows
TYPED_COLUMNS = 1000  # that payloads are decoded to
TYPED_TEXT_CHARACTERS = 64 * 1024  # of the text that names them
TYPED_DEPTH = 8  # arrays in arrays, models in models
TYPED_DECIMAL_CHARACTERS = 100  # of a number's text: more digits fit no decimal
