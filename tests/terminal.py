"""Commands on a real terminal, and signals to them."""

from __future__ import annotations

import os
import re
import signal
import subprocess

PATIENCE = 600


def interrupted_on_a_terminal(command, sign, number=signal.SIGINT):
    """Start a command whose progress goes to a terminal, press Ctrl-C once it shows the pattern ``sign``, or send it
    the signal of this ``number``."""
    import pty
    import select

    terminal, inner = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150"}
    environment.pop("TTY_COMPATIBLE", None)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=inner, env=environment)
    os.close(inner)
    shown, asked = b"", False
    try:
        while select.select([terminal], [], [], PATIENCE)[0]:
            try:
                read = os.read(terminal, 65536)
            except OSError:
                # Linux says so when the other side is closed
                break
            if not read:
                break
            shown += read
            if not asked and re.search(sign, shown):
                process.send_signal(number)
                asked = True
        code = process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    return code, shown.decode(errors="replace")
