"""The JetStream API of an account.

Read `dispatch` (requests are queued and answered), `endpoints` (what an endpoint is), then `streams` and `consumers`;
`lanes` keeps clients fair, `pages` bounds long lists.
"""
