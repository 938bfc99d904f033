"""When something is done: a heap of what is due, a timer of the wall clock, turns of work nobody waits for."""
