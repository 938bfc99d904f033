"""The fuzzer of meaning: well-formed requests whose values are the extremes of their types, for a whole broker."""
