"""Ceilings on what a header may claim.

They bound the time and memory that opening any file can take; each is well above what the
largest published models need. Sizes in bytes unless named otherwise.
"""

# Header, metadata and tensor table together. A vocabulary of 256,000 with merges takes 20 MiB.
MAX_HEADER_BYTES = 48 << 20
MAX_KEYS = 1 << 14
MAX_TENSORS = 1 << 16
# All string arrays of a file together; 262,144 tokens with their merges are 780,000.
MAX_ARRAY_STRINGS = 1 << 20
MAX_KEY_BYTES = 1024
MAX_STRING_BYTES = 4 << 20
# ggml stores a name with its terminator in 64 bytes.
MAX_TENSOR_NAME_BYTES = 63
MAX_DIMENSIONS = 4
MAX_ELEMENTS = (1 << 63) - 1
MIN_ALIGNMENT = 8
MAX_ALIGNMENT = 1 << 16
