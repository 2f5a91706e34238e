"""The public functions, a module for each question: names and plain numbers in, answers out."""
