"""Tests of the app's optional parts: this folder belongs to ``bias_core/beyond``."""
