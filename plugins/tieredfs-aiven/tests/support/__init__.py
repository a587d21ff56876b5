"""What several tests of the plugin share: one noun per module."""
