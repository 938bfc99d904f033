"""When something is done: what is due and the timer for it, turns of work nobody waits for, requests in a queue."""
