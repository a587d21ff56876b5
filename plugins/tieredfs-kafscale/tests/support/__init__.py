"""Support for the tests of the plugin."""
