import json
from collections.abc import Callable

import pytest

from packer.errors import MissingDependency, UsageError
from packer.packing.planning.agreement import Agreement, agreement_from_json, image_fields

MakeAgreement = Callable[..., Agreement]


def test_round_trip_keeps_the_order_of_splits_and_options(make_agreement: MakeAgreement) -> None:
    ours = make_agreement()
    theirs = agreement_from_json(json.loads(json.dumps(ours.to_json())))
    assert theirs == ours
    assert list(theirs.splits) == ["val", "train"]
    assert list(theirs.pack.options) == list(ours.pack.options)
    assert theirs.manifest({}, {}).to_json() == ours.manifest({}, {}).to_json()


def test_another_version_is_refused(make_agreement: MakeAgreement) -> None:
    with pytest.raises(UsageError, match="of version 1"):
        agreement_from_json({**make_agreement().to_json(), "version": 1})


@pytest.mark.parametrize("kind", ["codec", "format"])
def test_an_unknown_codec_or_format_is_refused(make_agreement: MakeAgreement, kind: str) -> None:
    value = json.loads(json.dumps(make_agreement().to_json()))
    value["options"][kind] = "os"
    with pytest.raises(UsageError, match=f"unknown {kind} 'os'"):
        agreement_from_json(value)
    value["libraries"][f"{kind} os"] = "packer-os 1.0"
    with pytest.raises(
        MissingDependency, match=f"{kind} 'os' is part of packer-os 1.0, .*pip install packer-os"
    ):
        agreement_from_json(value)
    value["libraries"][f"{kind} os"] = "packer-os; rm 1.0"  # a plan can come from anybody
    with pytest.raises(UsageError, match=f"unknown {kind} 'os'"):
        agreement_from_json(value)


def test_what_follows_from_it(make_agreement: MakeAgreement) -> None:
    plan = make_agreement()
    assert plan.planned == 22
    assert [(shard.stem, shard.batches) for shard in plan.shards()] == [
        ("val-000000", ((0, 4), (4, 6))),
        ("train-000000", ((6, 10), (10, 14))),
        ("train-000001", ((14, 18), (18, 22))),
    ]
    assert plan.shard_name(plan.shards()[0]) == "val-000000.tar"
    assert plan.pack.fields == image_fields("jpeg")


def test_fields_of_a_codec() -> None:
    assert [field.extension for field in image_fields("raw")] == ["npy", "cls"]
