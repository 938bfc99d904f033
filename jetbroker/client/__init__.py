"""A small synchronous NATS client, for commands of the command line and for jobs that publish.

Read `server.py` (where a server is and how to log in), then `connection.py` (one connection), then `requester.py`
(requests and their answers). It imports the base, and auth for what signs a nonce. It knows nothing of a broker: what
it talks to may be any NATS server.
"""
