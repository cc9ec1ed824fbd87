"""One stored message, the readable reference: its fields, properties, compression and ids."""
