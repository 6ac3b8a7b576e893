"""Text: files → lines → pieces → ids."""
