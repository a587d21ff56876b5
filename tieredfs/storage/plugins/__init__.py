"""Which plugins are installed, and which of them opens a URL."""
