"""tic-tui: the terminal screen over what tic-daemon has stored. It draws and never decides."""
