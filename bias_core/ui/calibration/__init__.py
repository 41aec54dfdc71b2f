"""The Calibration tab, and the validity reports that it shows."""
