"""A store beyond one machine: its segments are copied to a place while the broker goes on, and made a store again.

Read `shipper`, then `restore`. How a shipped store is laid out and read: `store/offline/manifest.py`, `shipped.py`.
"""
