"""nats-server's archive: an S2 stream of a tar, with its message blocks and the states of its consumers."""
