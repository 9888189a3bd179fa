"""Record batches: what Produce and Fetch carry as opaque bytes."""
