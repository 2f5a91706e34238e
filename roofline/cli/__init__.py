"""People: commands that read options, call one function of the API, and render."""
