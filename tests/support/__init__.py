"""What the tests of several folders share: one noun per module."""
