"""The machine: sessions, checkpoints, the process and its signals, reports, memory."""
