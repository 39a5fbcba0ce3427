"""From payloads to the pictures of a mini-batch."""
