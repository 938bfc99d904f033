"""The JetStream API of an account.

Read `dispatch` (requests are taken and answered), `endpoints` (what an endpoint is), then `streams` and `consumers`;
`pages` bounds long lists.
"""
