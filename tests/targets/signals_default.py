"""Sets every signal to its default and works; with an argument, then dies of that signal."""

import os
import signal
import sys

from signals_common import CATCHABLE, burn, facts, handlers, tell

facts["at_start"] = handlers()
facts["before"] = [repr(signal.signal(number, signal.SIG_DFL)) for number in CATCHABLE]
burn()
facts["after"] = handlers()
tell()
sys.stdout.flush()
if len(sys.argv) > 1:
    os.kill(os.getpid(), int(sys.argv[1]))
    burn(5)
