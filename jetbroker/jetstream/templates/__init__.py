"""Stream templates: a stream for each new subject, made when its first message arrives.

Read `templates` first, then `catcher`. docs/ARCHITECTURE.md says what it may import.
"""
