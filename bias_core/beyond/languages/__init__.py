"""Explore draws a concept in several languages, and compares each with English."""
