"""The consumer engine.

Read `cursor` (where it stands) and `tracker` (what it has delivered, and what became of that), then `delivery` (the hot
half) and `consumer` (life, timers, requests); `state` and `state_writer` bring it to disk.
"""
