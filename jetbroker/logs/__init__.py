"""Log lines in nats-server's format: `logger` writes them, to a file (`logfile`) or to syslog."""
