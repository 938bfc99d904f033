"""Interest and delivery: the subscription trie, the bounded route cache, queue groups.

One `Router` for each account. May import wire and tick; a `Receiver` hides who stands behind a subscription.
"""
