"""How fast streams are as tables: `python -m benchmarks.tables [--spark]` (see __main__)."""
