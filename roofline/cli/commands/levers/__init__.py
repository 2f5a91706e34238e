"""Commands about what one can change of a server, one file a question."""
