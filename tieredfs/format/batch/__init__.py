"""Record batches: headers, checks and decompression, without decoding records."""
