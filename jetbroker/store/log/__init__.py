"""A stream's log: the interface (`stream_log`), what all logs share (`segmented`), and logs in files and memory.

Read `segment`, `segmented`, `filelog`, then `commit` (the sync rounds); `statelog` keeps a consumer's state.
"""
