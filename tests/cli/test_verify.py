import json
import shutil
from pathlib import Path

from tests.fixtures import MakeTree, Run


def test_ok_and_damage(run: Run, make_tree: MakeTree) -> None:
    make_tree()
    pack = Path(run("convert", "photos", "--resize", "48", "--jobs", 1).stdout.strip())
    found = run("verify", pack, "--decode", "--against", "photos", "--jobs", 1)
    assert (found.returncode, found.stdout) == (0, "ok: 1 shard, 24 samples, 24 samples read\n")
    with (pack / "train-000000.tar").open("ab") as file:
        file.write(b"more")
    found = run("verify", pack)
    assert found.returncode == 4
    assert found.stdout == ""
    assert "train-000000.tar: has" in found.stderr
    assert "Traceback" not in found.stderr
    value = json.loads(run("verify", pack, "--json").stdout)
    assert len(value["damage"]) == 1


def test_a_pack_behind_its_source_is_not_damaged(
    run: Run, make_tree: MakeTree, tmp_path: Path
) -> None:
    make_tree(classes=2)
    pack = run("convert", "photos", "--resize", "48", "--jobs", 1).stdout.strip()
    folder = tmp_path / "photos" / "001.class0"
    first = folder / "001_0001.jpg"
    shutil.copy(first, folder / "new\x1b.jpg")
    listed = tmp_path / "files.txt"
    listed.write_text("".join(f"{p}\n" for p in sorted((tmp_path / "photos").rglob("*.jpg"))))
    for source in (["photos"], ["files.txt", "--src", "photos"]):
        found = run("verify", pack, "--jobs", 1, "--progress", "none", "--against", *source)
        assert (found.returncode, found.stdout) == (1, "")
        lines = found.stderr.splitlines()
        assert lines[0] == r"missing in the pack: 001.class0/new\x1b.jpg"
        assert "1 missing in the pack, 0 extra, 0 changed" in lines[1]
    shutil.copy(folder / "001_0002.jpg", first)
    found = run("verify", pack, "--jobs", 1, "--against", "photos", "--json")
    assert found.returncode == 4
    against = json.loads(found.stdout)["against"]
    assert against["changed"] == ["001.class0/001_0001.jpg"]
    assert against["missing"] == ["001.class0/new\x1b.jpg"]
    assert "1 missing in the pack, 0 extra, 1 changed" in found.stderr
    assert run("verify", pack, "--src", "photos").returncode == 2


def test_it_says_how_to_mend_what_is_damaged(run: Run, make_tree: MakeTree) -> None:
    make_tree(classes=1)
    convert = ("convert", "photos", "--resize", "48", "--jobs", 1)
    pack = Path(run(*convert).stdout.strip())
    shard = pack / "train-000000.tar"
    right = bytearray(shard.read_bytes())
    shard.write_bytes(right[:600] + bytes([right[600] ^ 1]) + right[601:])
    assert run(*convert).returncode == 0  # it looks at sizes alone
    found = run("verify", pack)
    assert found.returncode == 4
    assert "or remove it: the same packer convert makes what is missing" in found.stderr
    shard.unlink()
    assert run(*convert).returncode == 0
    assert shard.read_bytes() == right
    assert run("verify", pack).returncode == 0


def test_a_sample_and_a_time_limit_say_how_much_was_verified(run: Run, make_tree: MakeTree) -> None:
    make_tree()
    pack = run("convert", "photos", "--resize", "48", "--jobs", 1, "--batch-size", 2).stdout.strip()
    found = run("verify", pack, "--sample", "25%", "--jobs", 1)
    assert found.returncode == 0
    assert found.stdout.endswith(" files compared, 6 of 24 samples read\n")
    found = run("verify", pack, "--max-minutes", "0.0000001", "--decode", "--jobs", 1)
    assert found.returncode == 0
    assert found.stdout.startswith("stopped, ok so far: 0 of ")
    value = json.loads(run("verify", pack, "--sample", "0/3", "--jobs", 1, "--json").stdout)
    assert (value["decoded"], value["stopped"], value["compared"]) == (8, False, value["files"] - 1)
    for wrong in (["--sample", "5"], ["--max-minutes", "0"], ["--sample", "5%", "--repair"]):
        assert run("verify", pack, *wrong).returncode == 2


def test_repair_makes_room_for_convert(run: Run, make_tree: MakeTree) -> None:
    make_tree(classes=1)
    convert = ("convert", "photos", "--resize", "48", "--jobs", 1)
    pack = Path(run(*convert).stdout.strip())
    right = {path.name: path.read_bytes() for path in pack.iterdir()}
    for name in ("train.index", "train-000000.tar"):
        data = bytearray(right[name])
        data[600] ^= 1
        (pack / name).write_bytes(data)
    found = run("verify", pack, "--repair", "--jobs", 1)
    assert found.returncode == 4
    assert "now missing: train-000000.tar, train.index" in found.stderr
    assert "run the packer convert again that made the pack, or --repair --against" in found.stderr
    found = run("verify", pack, "--repair", "--against", "photos", "--jobs", 1)
    assert (found.returncode, found.stdout) == (0, "repaired: train-000000.tar, train.index\n")
    assert {name: (pack / name).read_bytes() for name in right} == right
    (pack / "train.index").write_bytes(b"rubbish")
    found = run("verify", pack, "--repair", "--jobs", 1)
    assert (found.returncode, found.stdout) == (0, "repaired: train.index\n")
    assert run("verify", pack, "--jobs", 1).returncode == 0
