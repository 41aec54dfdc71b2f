"""Attributes seen together: of pictures, of arms, and of people of the paired stereotype test."""
