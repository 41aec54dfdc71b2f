"""The Methods tab."""
