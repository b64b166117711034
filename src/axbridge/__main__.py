"""`python -m axbridge` is the `axbridge` program."""

from axbridge.cli import main

if __name__ == "__main__":
    main()
