"""Texts as Go and nats-server print and read them, named after what they imitate: encoding/json, strconv, time.

Clients compare what they are told byte by byte, so each of these rules stands here, once.
"""
