"""The commands, one file each: `transformer-tf NAME`, or the scripts in a checkout."""
