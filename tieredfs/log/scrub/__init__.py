"""Find and remove what copies that did not end have left in a store."""
