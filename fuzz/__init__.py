"""Generated input for everything that reads what a stranger sends; see docs/FUZZING.md."""
