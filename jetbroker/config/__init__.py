"""The configuration: the NATS configuration language, and the options it ends in.

May import `jetbroker.limits` and `jetbroker.errors`, nothing else of jetbroker. `lexer` and `parser` know the
language and no key of it, `options` holds the models, `loader` knows every key, `checks` what must hold at start.
"""
