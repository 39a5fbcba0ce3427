import signal
import subprocess
import sys

import pytest

from packer import __version__, registry
from tests.fixtures import Run

_FORMATS = ", ".join(registry.own_names("formats"))

HEAVY = {"numpy", "cv2", "PIL", "h5py", "lmdb", "torch", "joblib", "yaml", "simplejpeg"}


def test_help_names_every_verb_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; from packer.cli._group import run; assert run(['--help']) == 0;"
        f"print('heavy:', sorted({HEAVY!r} & sys.modules.keys()))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "heavy: []" in found.stdout
    for verb in registry.names("cli"):
        assert f"  {verb} " in found.stdout


@pytest.mark.parametrize("verb", registry.names("cli"))
def test_every_verb_has_help(run: Run, verb: str) -> None:
    found = run(verb, "--help")
    assert found.returncode == 0
    assert found.stdout.startswith(f"Usage: packer {verb}")
    assert found.stderr == ""


def test_version(run: Run) -> None:
    assert run("--version").stdout == f"packer {__version__}\n"
    report = run("--version", "-v").stdout.lower()
    assert all(name in report for name in ("simplejpeg", "opencv", "pillow", "libjpeg"))
    assert run("--version", "convert", "x").stdout == f"packer {__version__}\n"  # and no more


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["convrt"], "did you mean 'convert'?"),
        (["convert"], "Missing argument 'SOURCE'"),
        (
            ["convert", "x", "--format", "zip"],
            f"'zip' is none of {_FORMATS}",
        ),
        (["convert", "x", "--resize-mode", "shorter"], "did you mean 'short'?"),
        (["convert", "x", "--codec", "jpg"], "did you mean 'jpeg'?"),
        (["convert", "x", "--format", "hdf"], "did you mean 'hdf5'?"),
        (["convert", "x", "--shard-size", "many"], "many"),
        (["convert", "x", "--part", "2/2"], "K from 0 to N-1"),
        (["convert", "nowhere"], "nowhere: no such folder, archive or recipe"),
        (["-v", "convert", "x"], "packer convert -v"),
        (["-v"], "packer COMMAND -v"),
        (["list"], "did you mean 'ls'?"),
        (["convert", "caltech265"], "did you mean 'caltech256'?"),
        (["convert", "x", "--config", "nfss"], "did you mean 'nfs'?"),
        (["info", "nowhere"], "nowhere: no such folder"),
        (["verify", "."], "not a pack"),
        (["cat", ".", "key"], "not a pack"),
    ],
)
def test_wrong_usage_is_exit_2_and_no_traceback(run: Run, arguments: list[str], said: str) -> None:
    found = run(*arguments)
    assert found.returncode == 2
    assert said in found.stderr
    assert "Traceback" not in found.stderr
    assert found.stdout == ""


def test_exit_codes_are_owned_by_the_errors() -> None:
    from packer import errors

    codes = {
        errors.PackerError: 1, errors.OutputError: 1, errors.WorkerError: 1,
        errors.UsageError: 2, errors.SourceError: 2, errors.MissingDependency: 2,
        errors.TooManySkipped: 3, errors.DamageError: 4,
    }  # fmt: skip
    assert {kind: kind.exit_code for kind in codes} == codes
    assert errors.Interrupted(signal.SIGINT).exit_code == 130
    assert errors.Interrupted(signal.SIGTERM).exit_code == 143
