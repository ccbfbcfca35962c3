"""Other programs that read the same files: transformers, PEFT and llama.cpp.

Nothing here imports ``retrograd``: weights come through the ``gguf`` package, so that a fault in
our reader or our decoders shows up as a disagreement and not on both sides.
"""
