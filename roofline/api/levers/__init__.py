"""Questions about the levers of a server: what each of them gains, and what it costs."""
