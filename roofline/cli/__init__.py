"""The command line: commands read options, call one function of the API and print the answer."""
