"""`python -m tic_daemon` is `tic-daemon`."""

import sys

from tic_daemon.cli import main

sys.exit(main())
