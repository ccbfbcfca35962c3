"""``python -m retrograd`` is the command ``retrograd``."""

from retrograd.cli import main

if __name__ == "__main__":
    main()
