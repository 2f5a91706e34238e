"""Commands about changes to a server, one module per command."""
