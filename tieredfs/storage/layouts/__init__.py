"""The layouts that come with tieredfs."""
