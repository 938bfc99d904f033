"""What travels on a socket, without I/O: output buffer, protocol parser, header blocks, subjects.

All of it is compiled. May import limits, errors and tick; nothing here knows a socket, an account or a stream.
"""
