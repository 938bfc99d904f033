"""A stream's log: the interface (`stream_log`), what all logs share (`segmented`), and logs in files and memory.

Read `segment`, `segmented`, `filelog`, then the parts of a log in files: `active_file` (what is written),
`segment_files` (opened, read, removed), `removals`, `sealing`, `sync_round` and `health` (what the disk refuses, with
its table of transitions). `commit` has the end of a growing file and runs the sync rounds of all logs; `statelog` keeps
a consumer's state.
"""
