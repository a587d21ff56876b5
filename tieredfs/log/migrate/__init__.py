"""Copy the segments of a tier to another place, in any layout that stores them."""
