"""Trains the embedded models anew: needed only by those who change the calibration world (``python -m training``)."""
