"""Text: files → lines → pieces → ids. Read lines, vocabulary, subwords, bpe_dropout."""
