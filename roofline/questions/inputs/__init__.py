"""Arguments of the public functions, parsed and checked before the inner rooms see them."""
