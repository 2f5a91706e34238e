"""The commands: each reads its options, asks the API one question and prints the answer."""
