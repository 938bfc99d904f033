"""What a library's users do with it, played against a server's URL, in an environment without jetbroker."""
