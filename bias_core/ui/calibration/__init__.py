"""The Calibration tab."""
