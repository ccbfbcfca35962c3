"""Lane `interop`: our public Python API beside transformers, PEFT and llama.cpp on the real model.

``nox -s interop`` installs the peers and runs it; ``-- --record`` measures its bounds instead.
"""
