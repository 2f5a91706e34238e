"""The command line: words in, screens out. A command reads options, asks one question and prints its answer."""
