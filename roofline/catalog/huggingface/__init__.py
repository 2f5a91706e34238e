"""Configurations and weight files of Hugging Face as specifications of models."""
