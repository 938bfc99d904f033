"""The bytes on disk: records, footers, frames, JSON documents, and the names of files.

Read `records` first; docs/ARCHITECTURE.md describes the same in prose.
"""
