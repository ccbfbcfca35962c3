"""What the container needs to know of a storage format."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """A GGUF storage layout: `block_elements` consecutive elements of a row in `block_bytes` bytes.

    Args:
        name: lower-case name, also the name of the C++ decoder and the dtype slot in row ids.
        ggml_type: number of the layout in a GGUF tensor record.
        block_elements: elements in a block; a row holds a whole number of blocks.
        block_bytes: bytes in a block.
    """

    name: str
    ggml_type: int
    block_elements: int
    block_bytes: int

    def n_bytes(self, n_elements: int) -> int:
        """Bytes of `n_elements` elements, which must be whole blocks.

        Raises:
            ValueError: `n_elements` is not a multiple of `block_elements`.
        """
        n_blocks, rest = divmod(n_elements, self.block_elements)
        if rest:
            raise ValueError(f"{self.name} holds blocks of {self.block_elements}; got {n_elements}")
        return n_blocks * self.block_bytes
