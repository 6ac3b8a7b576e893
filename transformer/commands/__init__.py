"""The commands, a file each: `transformer-tf NAME`, or the files of a checkout."""
