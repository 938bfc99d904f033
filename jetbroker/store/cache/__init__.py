"""The LMDB cache of what a start would otherwise read from footers. It may be deleted at any time.

Read `summary` (what is kept of a segment), `cache`, `checkpoints` (when it is written), `pages` (whether it is sound).
"""
