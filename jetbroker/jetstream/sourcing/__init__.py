"""Mirrors and sources: streams whose messages come from other streams.

Read `origins` (whom to ask, and what for), then `origin_ingest` (what comes) and `origin_answers` (what is believed).
"""
