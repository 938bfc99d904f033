"""Texts as Go prints and reads them, named after what they imitate: encoding/json, strconv.Quote, time.

Clients compare what they are told byte by byte, so each of these rules stands here, once.
"""
