"""Streams as tables without Spark: `jetbroker.scan`, and payloads as typed columns.

Read `scanning`, then `typed` (batches with payloads in, typed columns out), `ddl` and `models` (what the columns are),
`convert` and `json_scan` (how payloads become values).
"""
