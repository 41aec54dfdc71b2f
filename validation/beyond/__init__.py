"""What the optional parts of the app say, checked: this folder goes with ``bias_core/beyond``."""
