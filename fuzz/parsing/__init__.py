"""Checks of the wire format that play per byte; compiled, as what they check is (`make fuzz` builds them)."""
