#!/usr/bin/env python3
"""Records the demos: runs their commands in terminals and writes what was seen as animated SVGs (make demos).

A demo is a file NAME.demo:

    title: TEXT             above the picture
    size: 92x10 92x8        columns and rows of each terminal, from the top down
    # TEXT                  a remark
    @ 2                     what follows happens in this terminal
    ~ COMMAND               is run before the recording begins
    $ COMMAND               is typed; it must end with exit code 0
    % COMMAND               is typed and goes on
    ! KEYS                  are typed, escapes as in Python
    = REGEX                 must come to stand in this terminal, within 30 s
    . SECONDS               nothing is done
    still                   what is seen now is the picture for who wants no motion
"""

import argparse
import os
import pathlib
import re
import sys
import tempfile
import time

from picture import svg
from terminal import Terminal

FRAME_S = 0.1
LIMIT_S = 30.0
TYPED_AT_ONCE = 4


class Failure(Exception):
    pass


class Recording:
    """A demo while it runs."""

    def __init__(self, path, speed, scratch):
        self.path, self.speed = path, speed
        self.steps = []
        fields = {}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := re.match(r"(title|size): (.*)", line):
                fields[match[1]] = match[2]
            elif line.strip() and not line.startswith("#"):
                self.steps.append((number, line[0] if line != "still" else line, line[2:]))
        self.title = fields["title"]
        self.sizes = [tuple(map(int, size.split("x"))) for size in fields["size"].split()]
        environment = dict(os.environ, XDG_RUNTIME_DIR=str(scratch), HOME=str(scratch))
        self.terminals = [
            Terminal(columns, rows, scratch / f"codes.{index}", environment)
            for index, (columns, rows) in enumerate(self.sizes)
        ]
        self.now = self.terminals[0]
        self.frames, self.still = [], None
        self.began = None

    def look(self, seconds):
        """Lets this much time pass and remembers what is seen then."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            share = min(FRAME_S, max(0.001, left)) / len(self.terminals)
            for terminal in self.terminals:
                terminal.read(share)
            if self.began is not None:
                panes = [terminal.screen.lines() for terminal in self.terminals]
                if not self.frames or self.frames[-1][1] != panes:
                    self.frames.append((time.monotonic() - self.began, panes))
            if left <= FRAME_S:
                return

    def wait(self, what, is_there):
        end = time.monotonic() + LIMIT_S
        while not is_there():
            self.look(FRAME_S)
            if time.monotonic() > end:
                seen = "\n".join(self.now.screen.lines())
                raise Failure(f"{what} did not happen within {LIMIT_S:.0f} s; the terminal shows:\n{seen}")

    def type(self, text):
        for at in range(0, len(text), TYPED_AT_ONCE):
            self.now.type(text[at : at + TYPED_AT_ONCE])
            self.look(FRAME_S * self.speed)

    def command(self, text, is_seen):
        before = len(self.now.exit_codes())
        if is_seen:
            self.type(text)
            self.look(0.4 * self.speed)
        else:
            self.now.type(text)
        self.now.type("\n")
        self.wait(f"the end of '{text}'", lambda: len(self.now.exit_codes()) > before)
        code = self.now.exit_codes()[-1]
        if code != 0:
            seen = "\n".join(self.now.screen.lines())
            raise Failure(f"'{text}' ended with exit code {code}; the terminal shows:\n{seen}")
        self.look(FRAME_S)

    def begin(self):
        """From now on everything is seen, in empty terminals."""
        for terminal in self.terminals:
            terminal.screen.clear()
            terminal.screen.write("$ ")
        self.began = time.monotonic()
        self.look(0.5 * self.speed)

    def step(self, kind, text):
        if kind not in "~@" and self.began is None:
            self.begin()
        if kind == "@":
            self.now = self.terminals[int(text) - 1]
        elif kind in "~$":
            self.command(text, kind == "$")
        elif kind == "%":
            self.type(text)
            self.look(0.4 * self.speed)
            self.now.type("\n")
        elif kind == "!":
            # A fault must outlast a slow look even where pauses are short.
            lasting = re.sub(r"--for (\d+)s", lambda found: f"--for {int(found[1]) / self.speed:.0f}s", text)
            self.type(lasting.encode().decode("unicode_escape"))
        elif kind == "=":
            is_there = re.compile(text, re.MULTILINE).search
            self.wait(f"'{text}'", lambda: is_there("\n".join(self.now.screen.lines())))
        elif kind == ".":
            self.look(float(text) * self.speed)
        elif kind == "still":
            self.still = time.monotonic() - self.began
        else:
            raise Failure(f"no such step: {kind}")

    def run(self):
        """Plays all steps and answers the picture."""
        try:
            for terminal in self.terminals:
                self.now = terminal
                self.wait("the first prompt", lambda: terminal.exit_codes())
            self.now = self.terminals[0]
            for number, kind, text in self.steps:
                try:
                    self.step(kind, text)
                except Failure as failure:
                    raise Failure(f"{self.path.name}:{number}: {failure}") from None
        finally:
            for terminal in self.terminals:
                terminal.end()
        typed = [text for _, kind, text in self.steps if kind in "$%"]
        description = "A recording of these commands: " + "; ".join(typed)
        still = self.frames[-1][0] if self.still is None else self.still
        return svg(self.title, description, self.sizes, self.frames, still)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description="Record the demos; softefa must be in PATH.")
    parser.add_argument("--quick", action="store_true", help="type at once and pause a tenth as long")
    parser.add_argument("--into", type=pathlib.Path, default=here, help="where pictures go [default: beside the demos]")
    arguments = parser.parse_args()
    for path in sorted(here.glob("*.demo")):
        with tempfile.TemporaryDirectory() as scratch:
            try:
                picture = Recording(path, 0.1 if arguments.quick else 1.0, pathlib.Path(scratch)).run()
            except Failure as failure:
                sys.exit(f"demos: {failure}")
        out = arguments.into / f"{path.stem}.svg"
        out.write_text(picture)
        print(f"{out}: {len(picture)} bytes")


if __name__ == "__main__":
    main()
