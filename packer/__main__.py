"""`python -m packer`: the same as the `packer` command, where another program has that name."""

from packer.cli import main

if __name__ == "__main__":
    main()
