"""Whether a checkout may be released: what the table says, what git holds, and who signed.

Nothing is run here. The table says which lanes passed at which digests; each reason for holding a
release back names the row, the lane, the file or the signature that it is about.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from matrix.canonical import Json
from matrix.declared import Declarations
from matrix.errors import Complaint, RefusedError
from matrix.todo import held_back

NAMESPACE = "retrograd-release"
RELEASES = "reports/releases"
ALLOWED = "reports/allowed_signers"
RECEIPTS = "reports/receipts"
# What a compiler turns into whatever the building machine has, or into a list of its own.
IMPLICIT = frozenset({"native", "all", "all-major", "auto", "default"})
_SHOWN = 6


def reasons(
    declared: Declarations, table: Json, uncommitted: Sequence[str], signoff: Mapping[str, str]
) -> tuple[str, ...]:
    """Everything but the signature that holds a release back; empty: nothing.

    Args:
        declared: the declarations.
        table: reduced from the receipts of this checkout.
        uncommitted: files that differ from the commit, or are not in it.
        signoff: ``reviewer`` and ``date``, as far as they are given.
    """
    return (
        *held_back(declared, table),
        *_unpromised(declared),
        *_architectures(declared),
        *_manual(declared, table),
        *_uncommitted(table, uncommitted),
        *_signoff(declared.version, signoff),
    )


def _unpromised(declared: Declarations) -> Iterator[str]:
    """Lanes that could be left out without anybody noticing."""
    for backend in declared.release.claimed:
        promised = {lane for e in declared.environments if e.backend == backend for lane in e.lanes}
        for lane in sorted(set(declared.plans) - promised):
            yield f"[{backend} {lane}]: the lane has a plan, and no environment promises it"


def _architectures(declared: Declarations) -> Iterator[str]:
    for backend in declared.release.claimed:
        for name in declared.release.architectures.get(backend, ()):
            if name.partition(":")[0].strip().lower() in IMPLICIT:
                yield f"[{backend}]: architecture `{name}` names none; list each of them"


def _manual(declared: Declarations, table: Json) -> Iterator[str]:
    """Receipts of lanes run by hand that were not made on the reference hardware."""
    for environment in declared.environments:
        if not environment.manual:
            continue
        for lane, promise in table["environments"][environment.folder]["lanes"].items():
            if promise["receipt"] is None:
                continue  # named as missing where the backend is claimed
            device = table["receipts"][promise["receipt"]]["device"]
            if not fnmatchcase(device, environment.device):
                wanted = environment.device or "none declared"
                yield (
                    f"[{environment.folder} {lane}]: run by hand on {device}; "
                    f"the reference hardware is {wanted}"
                )


def _uncommitted(table: Json, uncommitted: Sequence[str]) -> Iterator[str]:
    receipts = {f"{RECEIPTS}/{path}" for path in table["receipts"]}
    for path in uncommitted:
        if path in receipts:
            yield f"[{path}]: the receipt is not committed as it is here"
    rest = [path for path in uncommitted if path not in receipts]
    if rest:
        more = f" and {len(rest) - _SHOWN} more" if len(rest) > _SHOWN else ""
        yield f"[tree]: not committed: {', '.join(rest[:_SHOWN])}{more}"


def _signoff(version: str, signoff: Mapping[str, str]) -> Iterator[str]:
    for name in ("reviewer", "date"):
        if not signoff.get(name):
            yield f"[{RELEASES}/{version}.toml]: it names no {name}"


def uncommitted_files(root: Path, but: Sequence[str] = ()) -> tuple[str, ...]:
    """Files of a checkout that differ from its commit or are not in it, those ``but`` apart.

    Raises:
        RefusedError: this is no git checkout.
    """
    command = ["git", "--no-optional-locks", "-C", str(root), "status", "--porcelain", "-z"]
    command += ["--untracked-files=all", "--no-renames"]
    try:
        done = subprocess.run(command, capture_output=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        rule, remedy = "a release is made in a git checkout", "clone the repository"
        raise RefusedError([Complaint(str(root), rule, repr(error), remedy)]) from error
    names = (entry[3:] for entry in done.stdout.decode("utf-8", "replace").split("\0") if entry)
    return tuple(sorted(name for name in names if name not in but))


def signature_fault(root: Path, version: str, digest: str, reviewer: str) -> str | None:
    """What is wrong with the signature over the digest of the table; None when it holds.

    Args:
        root: top folder of the checkout.
        version: of the release; its signature is ``reports/releases/<version>.sig``.
        digest: what must have been signed, as hexadecimal text.
        reviewer: who must have signed it, by name in ``reports/allowed_signers``.

    Raises:
        RefusedError: this machine has no ssh-keygen.
    """
    signature, allowed = root / RELEASES / f"{version}.sig", root / ALLOWED
    where = f"[{RELEASES}/{version}.sig]"
    command = ssh_keygen()
    if not signature.exists():
        return f"{where}: nobody has signed the digest of the table, {digest}"
    if not allowed.exists():
        return f"{where}: {ALLOWED} is not there, so nobody may sign"
    if not reviewer:
        return f"{where}: without a reviewer's name nothing says whose signature it has to be"
    command += ["-Y", "verify", "-n", NAMESPACE, "-f", str(allowed)]
    command += ["-I", reviewer, "-s", str(signature)]
    done = subprocess.run(command, input=digest.encode(), capture_output=True, check=False)
    if done.returncode == 0:
        return None
    said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
    told = said[-1] if said else f"exit status {done.returncode}"
    return f"{where}: it is not the signature of {reviewer} over {digest}: {told}"


def ssh_keygen() -> list[str]:
    """The program that signs and checks signatures.

    Raises:
        RefusedError: this machine has none.
    """
    found = shutil.which("ssh-keygen")
    if found is None:
        rule, remedy = "ssh-keygen checks the signature of a release", "install OpenSSH"
        raise RefusedError([Complaint("PATH", rule, "no ssh-keygen", remedy)])
    return [found]
