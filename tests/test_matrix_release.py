"""What holds a release back is named; a signature counts for one table and one reviewer."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from made_receipts import (
    COMPLETE,
    CUDA,
    ENVIRONMENTS,
    OPS,
    ROOT,
    Made,
    copy_declarations,
    current,
    declarations,
    digests_here,
    receipts,
)

from matrix.__main__ import main
from matrix.canonical import Json
from matrix.declared import Declarations, Environment, Plan, read_environments
from matrix.errors import RefusedError
from matrix.reduce import reduce
from matrix.release import ALLOWED, NAMESPACE, RELEASES, reasons, signature_fault, uncommitted_files

DIGEST, OTHER = "ab" * 32, "ac" * 32
REVIEWER = "reviewer@example.org"
SIGNED = {"reviewer": REVIEWER, "date": "2026-11-29"}
CPU_ONLY = tuple(e for e in ENVIRONMENTS if e.backend == "cpu")
BY_HAND = "cuda-sm80"


def _table(declared: Declarations, *made: Made, edited: str = "") -> Json:
    now = current(edited=edited)
    return reduce(declared, receipts(*made), now, is_ancestor=lambda _: True).table


def _held(declared: Declarations, *made: Made, edited: str = "") -> tuple[str, ...]:
    return reasons(declared, _table(declared, *made, edited=edited), (), SIGNED)


def test_nothing_holds_back_what_is_shown_everywhere_and_signed_for() -> None:
    assert _held(declarations(), *COMPLETE) == ()


def test_a_failed_a_stale_and_a_missing_row_are_named() -> None:
    failing = (Made(rows=OPS, failing=OPS[:1]), *COMPLETE[1:])
    assert _held(declarations(), *failing) == (f"{OPS[0]} [cpu-avx2-gcc12 ops]: failed",)
    stale = _held(declarations(), *COMPLETE, edited=OPS[1])
    assert [line.partition(": ")[2] for line in stale] == ["stale"] * 3
    assert all(line.startswith(f"{OPS[1]} [") for line in stale)
    missing = _held(declarations(), *COMPLETE[1:])
    assert missing == tuple(f"{row} [cpu-avx2-gcc12 ops]: not measured" for row in sorted(OPS))


def test_a_lane_that_nobody_promises_cannot_be_forgotten() -> None:
    declared = replace(declarations(), plans={"texts": Plan(frozenset({"texts.a"}), {})})
    rule = "[cpu texts]: the lane has a plan, and no environment promises it"
    assert _held(declared, *COMPLETE) == (rule,)


@pytest.mark.parametrize("name", ["native", "all", "all-major: whatever there is"])
def test_an_architecture_is_named(name: str) -> None:
    declared = declarations()
    pinned = {"cpu": ("avx2",), "cuda": ("sm_90: H200", name)}
    released = replace(declared.release, claimed=("cpu", "cuda"), architectures=pinned)
    held = _held(replace(declared, release=released), *COMPLETE)
    assert held == (f"[cuda]: architecture `{name}` names none; list each of them",)


def test_a_claimed_backend_pins_architectures() -> None:
    declared = declarations()
    released = replace(declared.release, claimed=("cpu", "cuda"))
    held = _held(replace(declared, release=released), *COMPLETE)
    assert held == ("[cuda]: claimed, and no architecture is pinned",)


def _by_hand(device: str) -> tuple[Environment, ...]:
    made = (replace(e, manual=True, device=device) for e in ENVIRONMENTS if e.env_class == BY_HAND)
    return (*CPU_ONLY, *made)


def test_what_is_run_by_hand_was_run_on_the_reference_hardware() -> None:
    assert _held(declarations(_by_hand("Test *")), *COMPLETE) == ()
    other = replace(COMPLETE[-1], device="Another Device")
    assert _held(declarations(_by_hand("Test *")), *COMPLETE[:-1], other) == (
        "[cuda-sm80-nvcc13 ops]: run by hand on Another Device; the reference hardware is Test *",
    )
    declared = declarations(_by_hand("Test *"))
    pinned = {"cpu": ("avx2",), "cuda": ("sm_80",)}
    released = replace(declared.release, claimed=("cpu", "cuda"), architectures=pinned)
    held = _held(replace(declared, release=released), *COMPLETE[:-1])
    assert held == (f"{CUDA} [cuda-sm80-nvcc13 ops]: not measured",)


def test_hand_work_without_a_reference_device_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "environments.toml"
    text = (ROOT / "matrix" / "environments.toml").read_text(encoding="utf-8")
    path.write_text(text.replace('plan = "full"', 'plan = "full"\nmanual = true', 1), "utf-8")
    with pytest.raises(RefusedError, match="names its reference device"):
        read_environments(path, tmp_path)


def test_uncommitted_receipts_and_files_are_named() -> None:
    table = _table(declarations(), *COMPLETE)
    files = ("reports/receipts/cpu-avx2-gcc12/ops.json", *(f"a{i}" for i in range(8)))
    assert reasons(declarations(), table, files, {}) == (
        "[reports/receipts/cpu-avx2-gcc12/ops.json]: the receipt is not committed as it is here",
        "[tree]: not committed: a0, a1, a2, a3, a4, a5 and 2 more",
        "[reports/releases/0.1.0.toml]: it names no reviewer",
        "[reports/releases/0.1.0.toml]: it names no date",
    )


def test_git_says_what_is_not_committed(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="made in a git checkout"):
        uncommitted_files(tmp_path / "nowhere")
    _git(tmp_path, "init", "--quiet")
    (tmp_path / "a b").write_text("1")
    (tmp_path / "report").write_text("1")
    assert uncommitted_files(tmp_path, but=("report",)) == ("a b",)
    _git(tmp_path, "add", "a b")
    _git(tmp_path, "commit", "--quiet", "-m", "first")
    assert uncommitted_files(tmp_path, but=("report",)) == ()
    (tmp_path / "a b").write_text("2")
    assert uncommitted_files(tmp_path, but=("report",)) == ("a b",)


def _git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], capture_output=True, check=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two key pairs, `reviewer` and `stranger`."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("reviewer", "stranger"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name]
        subprocess.run([*command, "-f", str(folder / name)], check=True)
    return folder


def _sign(
    root: Path, keys: Path, digest: str, *, key: str = "reviewer", name: str = NAMESPACE
) -> None:
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", name, "-f", str(keys / key)]
    done = subprocess.run(command, input=digest.encode(), capture_output=True, check=True)
    (root / RELEASES).mkdir(parents=True, exist_ok=True)
    (root / RELEASES / "0.1.0.sig").write_bytes(done.stdout)


def _allow(root: Path, keys: Path, key: str = "reviewer") -> None:
    public = (keys / f"{key}.pub").read_text(encoding="utf-8")
    (root / ALLOWED).parent.mkdir(parents=True, exist_ok=True)
    (root / ALLOWED).write_text(f'{REVIEWER} namespaces="{NAMESPACE}" {public}', "utf-8")


def test_a_signature_holds_for_its_digest_and_its_reviewer(tmp_path: Path, keys: Path) -> None:
    _allow(tmp_path, keys)
    _sign(tmp_path, keys, DIGEST)
    assert signature_fault(tmp_path, "0.1.0", DIGEST, REVIEWER) is None
    for digest, reviewer in ((OTHER, REVIEWER), (DIGEST, "somebody@example.org")):
        fault = signature_fault(tmp_path, "0.1.0", digest, reviewer)
        assert fault is not None
        assert f"it is not the signature of {reviewer} over {digest}" in fault


def test_a_signature_of_a_stranger_or_for_another_purpose_is_none(
    tmp_path: Path, keys: Path
) -> None:
    _allow(tmp_path, keys)
    _sign(tmp_path, keys, DIGEST, key="stranger")
    assert "not the signature" in str(signature_fault(tmp_path, "0.1.0", DIGEST, REVIEWER))
    _sign(tmp_path, keys, DIGEST, name="file")
    assert "not the signature" in str(signature_fault(tmp_path, "0.1.0", DIGEST, REVIEWER))
    (tmp_path / RELEASES / "0.1.0.sig").write_text("-----BEGIN SSH SIGNATURE-----\n", "utf-8")
    assert "not the signature" in str(signature_fault(tmp_path, "0.1.0", DIGEST, REVIEWER))


def test_what_a_signature_lacks_is_said(tmp_path: Path, keys: Path) -> None:
    assert "nobody has signed" in str(signature_fault(tmp_path, "0.1.0", DIGEST, REVIEWER))
    _sign(tmp_path, keys, DIGEST)
    assert "nobody may sign" in str(signature_fault(tmp_path, "0.1.0", DIGEST, REVIEWER))
    _allow(tmp_path, keys)
    assert "without a reviewer" in str(signature_fault(tmp_path, "0.1.0", DIGEST, ""))


def test_a_machine_without_ssh_keygen_says_so(
    tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _allow(tmp_path, keys)
    _sign(tmp_path, keys, DIGEST)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RefusedError, match="no ssh-keygen; install OpenSSH"):
        signature_fault(tmp_path, "0.1.0", DIGEST, REVIEWER)


def test_the_command_names_what_holds_back_and_renders_nothing_stale(
    tmp_path: Path, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_declarations(tmp_path)
    path = tmp_path.parent / f"{tmp_path.name}.json"
    path.write_text(digests_here(), encoding="utf-8")
    _git(tmp_path, "init", "--quiet")
    told = ("--root", str(tmp_path))
    assert main([*told, "release", "--digests", str(path)]) == 1
    printed = capsys.readouterr().out
    assert "[src/retrograd/table.json]: it is not what the receipts say" in printed
    assert "add.forward.f32.cpu [cpu-avx2-gcc12 ops]: not measured" in printed
    assert not (tmp_path / RELEASES).exists()
    assert main([*told, "reduce", "--digests", str(path)]) == 0
    assert main([*told, "render"]) == 0
    digest = json.loads((tmp_path / "src/retrograd/table.json").read_bytes())["digest"]
    _allow(tmp_path, keys)
    _sign(tmp_path, keys, digest)
    text = "".join(f'{name} = "{value}"\n' for name, value in SIGNED.items())
    (tmp_path / RELEASES / "0.1.0.toml").write_text(text, encoding="utf-8")
    _git(tmp_path, "add", "--all")
    _git(tmp_path, "commit", "--quiet", "-m", "all of it")
    capsys.readouterr()
    assert main([*told, "release", "--digests", str(path)]) == 1
    first, *held, last = capsys.readouterr().out.splitlines()
    assert first == f"{RELEASES}/0.1.0.md: written"
    assert last == f"release 0.1.0, table {digest}: held back by {len(held)}"
    # Of what is not about rows nothing is left.
    assert held
    assert [line for line in held if not line.endswith(": not measured")] == []
    report = (tmp_path / RELEASES / "0.1.0.md").read_text(encoding="utf-8")
    assert f"| reviewer | {REVIEWER} |" in report
