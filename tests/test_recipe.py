from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from packer import recipe
from packer.errors import ConfigError, SourceError
from packer.settings.options import ConvertOptions
from packer.sources.drawn import DrawnSource
from packer.sources.folder import FolderSource


def write_recipe(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", recipe.names())
def test_every_recipe_is_whole(name: str) -> None:
    known = recipe.load(name)
    assert known.name == name
    assert known.title and known.description
    ConvertOptions(**known.options)


def test_caltech256() -> None:
    known = recipe.load("caltech256")
    assert (known.images, known.classes, known.root) == (30_607, 257, "256_ObjectCategories")
    assert known.options == {"split": "train=0.8,val=0.2"}
    assert known.litter_paths == {b"198.spider/RENAME2", b"056.dog/greg/vision309"}
    [archive] = known.archives
    assert archive.name == "256_ObjectCategories.tar"
    assert archive.md5 == "67b4f42ca05d46448c6bb8ecd2220f6d"
    assert archive.bytes == 1_183_006_720
    assert archive.bytes % 10_240 == 0  # tar pads to this


def test_display_names_drop_the_number() -> None:
    known = recipe.load("caltech256")
    assert known.display_name("001.ak47") == "ak47"
    assert known.display_name("257.clutter") == "clutter"
    assert known.display_name("a.b") == "a.b"
    assert recipe.load("imagenet").display_name("n01440764") == "n01440764"


def test_a_recipe_of_the_users_own(tmp_path: Path) -> None:
    name = write_recipe(
        tmp_path,
        "title: Flowers\n"
        "root: flowers\n"
        "local_names: [flowers, flowers.zip]\n"
        "archives:\n"
        "  - name: flowers.zip\n"
        "    urls: ['https://example.org/flowers.zip']\n"
        "    bytes: 10MB\n"
        f"    md5: {hashlib.md5(b'').hexdigest().upper()}\n"
        "options:\n"
        "  resize: 256\n"
        "  split: none\n",
    )
    known = recipe.load(name)
    assert known.name == "mine"
    assert known.archives[0].bytes == 10_000_000
    assert known.archives[0].md5 == hashlib.md5(b"").hexdigest()
    assert known.options == {"resize": "256", "split": "none"}


ARCHIVE = "title: x\narchives:\n  - name: a.tar\n    urls: ['https://e.org/a']\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("root: x\n", "has no title"),
        ("title: x\nclass-name: y\n", r"unknown key 'class-name' \(did you mean 'class_name'"),
        ("title: 5\n", "title is 5, should be a text"),
        ("title: x\nlitter: a.txt\n", "litter is 'a.txt', should be a list"),
        ("title: x\nlitter: [5]\n", "litter is .5., should be a list"),
        ("title: x\nimages: many\n", "images is 'many', should be a whole number"),
        ("title: x\nclasses: true\n", "classes is True, should be a whole number"),
        ("title: x\nclass_name: '(.*'\n", "class_name: "),
        ("title: x\nclass_name: '.*'\n", "should be a pattern with a group"),
        ("title: x\nclass_name: '(a+)+b'\n", "class_name: repeats a group"),
        ("title: x\nsource: drwan\n", r"unknown source 'drwan' \(did you mean 'drawn'"),
        ("title: x\noptions: 5\n", "options is 5, should be lines"),
        ("title: x\noptions: {1: 2}\n", "options is {1: 2}, should be lines"),
        ("title: x\noptions: {~: 2}\n", "options is {None: 2}, should be lines"),
        ("title: x\narchives: [{1: a}]\n", "an archive is {1: 'a'}, should be lines"),
        (
            "title: x\noptions: {qualty: 5}\n",
            r"options: unknown key 'qualty' \(did you mean 'quality'",
        ),
        (
            "title: x\noptions: {scheduler: 'tcp://x:1'}\n",
            "scheduler: is not an option of a data set",
        ),
        ("title: x\noptions: {quality: 500}\n", "options: quality: .*out of range"),
        ("title: x\narchives: {}\n", "archives is {}, should be a list"),
        ("title: x\narchives: [a.tar]\n", "an archive is 'a.tar', should be lines"),
        ("title: x\narchives: [{nam: a}]\n", r"unknown key 'nam' \(did you mean 'name'"),
        ('title: x\nroot: "a\\nb"\n', "root is 'a.*b', should be without line breaks"),
        ('title: x\nlocal_names: ["a\\eb"]\n', "local_names is .*, should be without line"),
        (ARCHIVE, "a.tar has neither md5 nor sha256"),
        (ARCHIVE + "    md5: abc\n", "md5 is 'abc', should be 32 hexadecimal digits"),
        (ARCHIVE.replace("a.tar", "../a.tar"), r"name is '\.\./a\.tar', should be a file name"),
        (ARCHIVE.replace("https", "gopher") + f"    md5: '{32 * '0'}'", "should be an address"),
        (ARCHIVE + f"    bytes: lots\n    md5: '{32 * '0'}'", "'lots' is not a size"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        recipe.load(write_recipe(tmp_path, text))


def test_how_to_get_the_data_is_one_line(tmp_path: Path) -> None:
    known = recipe.load(write_recipe(tmp_path, "title: x\nobtain: |\n  ask\n  them\n"))
    with pytest.raises(SourceError, match=r"mine: no source \(ask them; then say"):
        recipe.find_source(known, None, None, tmp_path)


def test_unknown_recipe() -> None:
    with pytest.raises(ConfigError, match="did you mean 'caltech256'"):
        recipe.load("caltec256")


def test_find_source_looks_in_order(tmp_path: Path) -> None:
    known = recipe.load("caltech256")
    data, cwd = tmp_path / "data", tmp_path / "cwd"
    in_cwd = cwd / "256_ObjectCategories.tar"
    cwd.mkdir()
    in_cwd.touch()
    assert recipe.find_source(known, None, data, cwd)[0] == in_cwd
    (cwd / "256_ObjectCategories").mkdir()
    assert recipe.find_source(known, None, data, cwd)[0] == cwd / "256_ObjectCategories"
    (data / "caltech256").mkdir(parents=True)
    assert recipe.find_source(known, None, data, cwd)[0] == data / "caltech256"
    fetched = data / "caltech256" / "256_ObjectCategories.tar"
    fetched.touch()
    place, looked = recipe.find_source(known, None, data, cwd)
    assert place == fetched
    assert len(looked) == 5
    assert recipe.find_source(known, cwd, data, cwd) == (cwd, [cwd])


def test_a_missing_source_says_where_it_looked_and_how_to_get_it(tmp_path: Path) -> None:
    known = recipe.load("caltech256")
    with pytest.raises(SourceError) as caught:
        recipe.find_source(known, None, tmp_path / "data", tmp_path)
    assert str(tmp_path / "data" / "caltech256") in caught.value.message
    assert str(tmp_path / "256_ObjectCategories.tar") in caught.value.message
    assert caught.value.hint.startswith("packer fetch caltech256")
    assert caught.value.exit_code == 2
    with pytest.raises(SourceError, match="no such folder or archive"):
        recipe.find_source(known, tmp_path / "gone", None, tmp_path)
    with pytest.raises(SourceError, match=r"with an account.*--src"):
        recipe.find_source(recipe.load("imagenet"), None, None, tmp_path)
    with pytest.raises(SourceError, match=r"folder: no source \(say where it is with --src"):
        recipe.find_source(recipe.load("folder"), None, None, tmp_path)


def test_opening(tmp_path: Path) -> None:
    inside = tmp_path / "256_ObjectCategories" / "001.ak47"
    inside.mkdir(parents=True)
    (inside / "1.jpg").touch()
    opened = recipe.load("caltech256").open(tmp_path)
    assert isinstance(opened, FolderSource)
    assert opened.scan().paths == [b"001.ak47/1.jpg"]
    sample = recipe.load("sample")
    place, looked = recipe.find_source(sample, None, tmp_path, tmp_path)
    assert (place, looked) == (None, [])
    assert isinstance(sample.open(place), DrawnSource)
    assert isinstance(sample.open(tmp_path), FolderSource)
