"""What a request may ask of the decoder."""
