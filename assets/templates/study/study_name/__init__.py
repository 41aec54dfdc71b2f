"""Measure how often people in pictures wear a thing: a study to change into your own."""
