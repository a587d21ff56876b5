"""Record batches: their headers, checks and bytes, without their records."""
