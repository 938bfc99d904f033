"""What a start does with what it finds: `decisions` holds the table, `assemble` puts a log together."""
