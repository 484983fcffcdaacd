"""tic-daemon: the headless watcher. It follows logs, understands their lines and keeps what it read in DuckDB."""

__version__ = "0.1.0"
