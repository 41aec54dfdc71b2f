"""Mitigation: the bias that arms of an exploration leave, and their cost."""
