"""Ctrl-C and requests to end: the first asks the loop to finish its step, the second does not wait.

SIGTERM and SIGHUP, sent by a batch system or when a terminal closes, count as Ctrl-C does; one that
the process was started to ignore, as by ``nohup``, stays ignored.
"""

import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

EXIT_CODE = 130
"""What a shell reports for a program ended by Ctrl-C."""
ASKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While this context is open, a signal of ``ASKED`` sets a flag in place of its usual effect.

    A step is one long native call, during which Python runs no signal handler. Python's C handler
    still writes a byte for each signal to the wakeup socket, and a thread reads it there, so the
    second Ctrl-C works inside a step as well. Outside the main thread, where Python allows no
    handler, nothing is changed.

    Args:
        on_first: called once, from the watching thread, at the first Ctrl-C.
        on_second: called before the process ends at the second.
    """

    def __init__(self, on_first: Callable[[], None], on_second: Callable[[], None]) -> None:
        self._on_first = on_first
        self._on_second = on_second
        self._requested = threading.Event()
        self._signal = signal.SIGINT
        self._close: Callable[[], None] | None = None

    @property
    def requested(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._requested.is_set()

    @property
    def exit_code(self) -> int:
        """What a shell reports for a program ended by the signal that came."""
        return 128 + self._signal

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is not threading.main_thread():
            return self
        reader, writer = socket.socketpair()
        writer.settimeout(0.0)
        ours = [s for s in ASKED if s is signal.SIGINT or signal.getsignal(s) is signal.SIG_DFL]
        handlers = {number: signal.signal(number, self._handle) for number in ours}
        wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        watcher = threading.Thread(target=self._watch, args=(reader,), daemon=True)
        watcher.start()

        def close() -> None:
            signal.set_wakeup_fd(wakeup)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            writer.close()
            watcher.join()
            reader.close()

        self._close = close
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._close is not None:
            self._close()
            self._close = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Sets the flag as well: the loop may look at it before the watching thread has run."""
        del frame
        self._note(number)

    def _note(self, number: int) -> None:
        if not self._requested.is_set():
            self._signal = signal.Signals(number)
            self._requested.set()

    def _watch(self, reader: socket.socket) -> None:
        pressed = 0
        # One byte a signal; the stream ends when the context closes.
        while data := reader.recv(64):
            for byte in data:
                if byte not in ASKED:
                    continue
                pressed += 1
                if pressed == 1:
                    self._note(byte)
                    self._on_first()
                else:
                    self._on_second()
                    os._exit(128 + byte)
