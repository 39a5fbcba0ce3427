import json

import yaml

from tests.fixtures import Run


def test_list_and_show(run: Run) -> None:
    rows = json.loads(run("recipes", "list", "--json").stdout)["recipes"]
    names = [row["name"] for row in rows]
    assert {"caltech256", "imagenet", "folder", "sample"} <= set(names)
    assert run("recipes", "list").stdout.count("\n") == len(names)
    shown = yaml.safe_load(run("recipes", "show", "caltech256").stdout)
    assert shown["images"] == 30607
    assert shown["archives"][0]["md5"] == "67b4f42ca05d46448c6bb8ecd2220f6d"
    assert run("recipes", "show", "caltech").returncode == 2
