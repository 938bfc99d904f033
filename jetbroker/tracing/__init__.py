"""Messages that ask for a trace: what their headers ask, and what is collected of their way."""
