"""What is W&B's: history rows and their values, the transaction log, its directories, the uploader's own log."""
