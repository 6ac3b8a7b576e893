"""Start the command launch, as `python -m transformer.launch`."""

from transformer.commands import cli
from transformer.commands.launch import parser, run

if __name__ == "__main__":
    cli.main(parser(), run)
