"""Which plugins are installed, and which of them a URL is opened by."""
