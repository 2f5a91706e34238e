"""What things are, and how people write them: records and grammars. Nothing here reads a file."""
