"""What the API speaks of: configurations, requests and errors, how they are decoded and checked.

Read `config`, then `decode` (Go's rules of JSON), `stream_config` and `consumer_config` (defaults and refusals),
`errors`. `contracts` and `interest` say what is expected of the rooms around. Knows no stream and no consumer.
"""
