"""Model specifications from a config.json of Hugging Face."""
