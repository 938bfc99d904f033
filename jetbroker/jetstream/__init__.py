"""JetStream: API dispatch, models and their checks, streams and consumers.

Per message (ingest, delivery, acks) lives in `stream.pyx` and `consumer.pyx`; the control plane here is Python.
May import accounts, routing, store, wire and config.
"""
