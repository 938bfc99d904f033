"""Runs software that other people wrote against nats-server and jetbroker, and compares what fails."""
