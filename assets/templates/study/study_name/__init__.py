"""How often do people in the pictures wear a hat? A study to change into your own."""
