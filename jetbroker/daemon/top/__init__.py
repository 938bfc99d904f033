"""`jetbroker top`: a living broker in a terminal. It asks the monitoring port, or the system account's services."""
