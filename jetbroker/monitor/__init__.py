"""The HTTP monitoring port: what nats-server shows at `/varz`, `/connz`, `/subsz`, `/jsz`, `/healthz`.

May import every room below `broker` but store and auth. `monitor` is the port; the rest is loaded behind
the start: `http` knows sockets and HTTP and nothing of brokers, `endpoints` and what is behind it the other way round.
"""
