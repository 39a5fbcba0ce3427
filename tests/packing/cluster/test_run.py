"""How a run uses a cluster, with a stand-in for it; test_real.py has a real cluster."""

from __future__ import annotations

import importlib.util
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from packer.errors import ConfigError, MissingDependency, UsageError, WorkerError
from packer.packing.cluster.remote import Terms
from packer.packing.cluster.run import Cluster, ClusterOrders, require_cluster
from packer.packing.cluster.scheduler import Connection
from packer.settings.options import ConvertOptions

pytestmark = pytest.mark.cluster


class FakeConnection(Connection):
    """Workers that die over the tasks numbered `deadly`, without a mark; no thread is ever there
    but for the first count.
    """

    def __init__(
        self, deadly: Sequence[int] = (), found: object = None, version: str = "1"
    ) -> None:
        self.scheduler = "fake"
        self.deadly, self.found, self.version = deadly, found, version
        self.submitted: list[int] = []

    def threads(self) -> int:
        return 0 if self.submitted else 1

    def there(self, function: Callable[[], Any]) -> Any:
        return self.version

    def everywhere(self, function: Callable[..., Any], *arguments: object) -> dict[str, Any]:
        if isinstance(self.found, AssertionError):
            raise self.found
        return {"tcp://b:1": None, "tcp://a:1": self.found}

    def submit(
        self, function: Callable[..., Any], task: Any, on_done: Callable[[Any], None]
    ) -> types.SimpleNamespace:
        self.submitted.append(task.number)
        future = types.SimpleNamespace(key=str(len(self.submitted)), number=task.number)
        on_done(future)
        return future

    def died(self, future: Any) -> bool:
        return future.number in self.deadly

    def result(self, future: Any) -> Any:
        return future.number

    def cancel(self, futures: Sequence[Any]) -> None:
        assert not futures

    def require(self) -> None:
        """Always there."""


def _fake(connection: FakeConnection) -> Cluster:
    orders = ClusterOrders("fake", None, lambda: None, lambda text: None)
    return Cluster(connection, orders)


def _tasks(out: Path, count: int) -> Iterator[Any]:
    for number in range(count):
        plan = types.SimpleNamespace(stem=f"train-{number:06d}")
        target = types.SimpleNamespace(out=out, plan=plan, name=f"train-{number:06d}.tar")
        yield types.SimpleNamespace(number=number, target=target, batches=())


def test_a_shard_that_was_not_begun_is_tried_once_more(tmp_path: Path) -> None:
    """What killed its workers was another shard, unless that happens again. Others are made, also
    while no worker is there.
    """
    connection = FakeConnection(deadly=(1,))
    results: list[Any] = []
    with pytest.raises(
        WorkerError, match=r"train-000001.tar: .* while at its start; 3 other shards"
    ):
        results.extend(result for _, result in _fake(connection).run(_tasks(tmp_path, 4)))
    assert results == [0, 2, 3]
    assert connection.submitted == [0, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        (FakeConnection(version="0.9"), "scheduler fake: cannot run this packer: it has 0.9 and"),
        (
            FakeConnection(found=ImportError("no\npacker")),
            "worker tcp://a:1: .*: ImportError: no p",
        ),
        (FakeConnection(found=AssertionError()), "scheduler fake: .*: AssertionError"),
        (FakeConnection(found=UsageError("worker on a: has 2")), "^worker on a: has 2$"),
    ],
)
def test_who_cannot_work_is_named_before_any_work(connection: FakeConnection, message: str) -> None:
    terms = types.SimpleNamespace(libraries={"packer": "1"})
    with pytest.raises(UsageError, match=message):
        _fake(connection).require(cast(Terms, terms))
    assert connection.submitted == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "dask"}, "needs the address of a scheduler"),
        ({"scheduler": "tcp://a:1"}, "is given, but not used"),
        ({"backend": "dask", "scheduler": "none.json"}, "none.json: no such file, and no address"),
        ({"backend": "dask", "scheduler": "tcp://a:1", "part": (0, 2)}, "both divide the work"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        require_cluster(ConvertOptions(**options))  # type: ignore[arg-type]


def test_without_distributed_the_line_that_installs_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="packer-shards"):
        require_cluster(ConvertOptions(backend="dask", scheduler="tcp://a:1"))
    require_cluster(ConvertOptions())
