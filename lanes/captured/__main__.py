"""``python -m lanes.captured``: check the stored capture, or ``--write`` it from the real model.

The check reads the index, the digest and every array. Writing runs one step of the real model on
this machine's best instruction-set variant; another variant or another BLAS gives other last bits,
which are as good, so a new capture is a change that a reviewer reads.
"""

import argparse
import sys

from lanes import captured


def main() -> int:
    """Prints what is stored; exit 1 through an error where the data are not what they must be."""
    parser = argparse.ArgumentParser(prog="python -m lanes.captured", description=__doc__)
    parser.add_argument("--write", action="store_true", help="capture again from the real model")
    if parser.parse_args().write:
        from lanes.captured.capture import kept, run_model, write
        from retrograd.admission import collecting_evidence

        with collecting_evidence():
            ran = run_model()
        write(kept(ran), ran.numbers, captured.FOLDER)
    found = captured.read(captured.FOLDER)
    for name, array in found.arrays.items():
        sys.stdout.write(f"{name}: {array.dtype} {array.shape}\n")
    total = sum(array.nbytes for array in found.arrays.values())
    sys.stdout.write(f"{len(found.arrays)} arrays, {total} bytes\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
