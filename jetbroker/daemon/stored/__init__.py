"""`jetbroker store …`: looks into the files of a store, whose broker may be running or not, and is not asked.

Read `command`, then one module per command.
"""
