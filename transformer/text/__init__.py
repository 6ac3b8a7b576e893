"""Text: files → lines → pieces → ids. READING_ORDER says which file to read first."""
