"""The public functions: names and plain numbers in, answers out."""
