"""Predictions as a page that answers by itself: one HTML file, its data and its programs."""
