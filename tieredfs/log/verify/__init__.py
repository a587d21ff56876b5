"""Look whether a tier is whole."""
