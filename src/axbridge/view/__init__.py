"""The live page: a robot in a browser, beside the program that runs it."""
