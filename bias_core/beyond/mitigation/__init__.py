"""What the arms of an exploration leave of a bias, and what that costs."""
