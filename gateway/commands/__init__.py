"""The commands of `callgate` (`gateway/cli.py` has the table): one file each, and what they share."""
