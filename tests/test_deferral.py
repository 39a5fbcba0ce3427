import os
import signal
import subprocess
import sys
import threading

import pytest

from packer.deferral import Deferral


def test_a_signal_waits_for_the_check_and_then_has_its_usual_effect() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), Deferral() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        steps.append("went on")
        signals.check()
        steps.append("too far")
    assert steps == ["went on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_is_not_forgotten_if_nobody_checks() -> None:
    with pytest.raises(KeyboardInterrupt), Deferral():
        os.kill(os.getpid(), signal.SIGINT)


def test_an_exception_on_its_way_is_not_replaced() -> None:
    with pytest.raises(RuntimeError, match="first"), Deferral():
        os.kill(os.getpid(), signal.SIGINT)
        raise RuntimeError("first")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_ignored_signal_stays_ignored(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with Deferral() as signals:
            os.kill(os.getpid(), number)
            signals.check()
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_without_a_signal_nothing_happens() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Deferral() as signals:
        signals.check()
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_second_signal_ends_the_process_at_once() -> None:
    code = """
import os, signal
from packer.deferral import Deferral
with Deferral():
    os.kill(os.getpid(), signal.SIGTERM)
    print("still here", flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    print("not here", flush=True)
"""
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == -signal.SIGTERM
    assert found.stdout == "still here\n"


def test_other_threads_are_left_alone() -> None:
    handlers = []

    def work() -> None:
        with Deferral() as signals:
            signals.check()
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
