"""Record batches to Arrow and back, whole fetches at a time. Pure: bytes and columns in, columns and bytes
out."""
