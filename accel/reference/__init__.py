"""Recorded machines, as JSON: what the book shows beside the reader's own."""
