"""The Spark data source "jetstream" and ready-made jobs; imports nothing of jetbroker but its offline reader
and how a login is signed."""
