"""The host loop: buckets, compiled steps, rounds and the engine that owns the device."""
