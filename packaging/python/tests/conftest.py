"""The tests run against the installed wheel: nothing here adds the sources to the path."""

pytest_plugins = ["pytester"]
