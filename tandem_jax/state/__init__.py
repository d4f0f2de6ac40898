"""What a request leaves on the device between rounds, and which pages it owns."""
