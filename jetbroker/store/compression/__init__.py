"""Sealed segments are packed in a thread (`packer`), and messages in packed ones are overwritten (`packing`)."""
