"""A terminal in which a shell runs, as far as the programs of the demos need one."""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

ESCAPE = re.compile(r"\x1b(?:\[([?0-9;]*)([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")


class Screen:
    """Rows of characters, changed by what programs write."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.clear()
        self.kept = None
        self.unread = ""

    def clear(self):
        self.cells = [[" "] * self.columns for _ in range(self.rows)]
        self.x = self.y = 0

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    def write(self, text):
        text = self.unread + text
        self.unread, at = "", 0
        while at < len(text):
            character = text[at]
            if character == "\x1b":
                match = ESCAPE.match(text, at)
                if match is None and len(text) - at < 40:
                    # The rest of it is still on its way.
                    self.unread = text[at:]
                    return
                at = match.end() if match else at + 1
                if match and match.group(2):
                    self.control(match.group(1), match.group(2))
                continue
            self.put(character)
            at += 1

    def put(self, character):
        if character == "\r":
            self.x = 0
        elif character == "\n":
            self.line_feed()
        elif character == "\b":
            self.x = max(0, self.x - 1)
        elif character == "\t":
            self.x = min(self.columns - 1, self.x // 8 * 8 + 8)
        elif character >= " ":
            if self.x == self.columns:
                self.x = 0
                self.line_feed()
            self.cells[self.y][self.x] = character
            self.x += 1

    def line_feed(self):
        if self.y + 1 < self.rows:
            self.y += 1
            return
        self.cells.append([" "] * self.columns)
        del self.cells[0]

    def control(self, parameters, name):
        numbers = [int(number) if number.isdigit() else 0 for number in parameters.split(";")]
        if name == "H":
            place = (numbers + [0, 0])[:2]
            self.y, self.x = [max(0, number - 1) for number in place]
        elif name == "K":
            self.cells[self.y][self.x :] = [" "] * (self.columns - self.x)
        elif name == "J":
            self.cells[self.y][self.x :] = [" "] * (self.columns - self.x)
            for row in range(self.y + 1, self.rows):
                self.cells[row] = [" "] * self.columns
        elif name == "C":
            self.x = min(self.columns - 1, self.x + max(1, numbers[0]))
        elif name == "h" and parameters == "?1049":
            self.kept = (self.cells, self.x, self.y)
            self.clear()
        elif name == "l" and parameters == "?1049" and self.kept:
            self.cells, self.x, self.y = self.kept


class Terminal:
    """A bash in a terminal of its own. It writes the exit code of each command to a file."""

    def __init__(self, columns, rows, codes, environment):
        self.screen = Screen(columns, rows)
        self.codes = codes
        codes.write_text("")
        environment = dict(
            environment,
            PS1="$ ",
            PS2="> ",
            TERM="xterm",
            PROMPT_COMMAND=f'echo "$?" >> {codes}',
            COLUMNS=str(columns),
            LINES=str(rows),
            HISTFILE="/dev/null",
        )
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting"], environment)
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, size)
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, seconds):
        """Takes what comes within this time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.file], [], [], left)[0]:
                return
            try:
                got = os.read(self.file, 1 << 16)
            except OSError:
                return
            if not got:
                return
            self.screen.write(self.decoder.decode(got))

    def type(self, text):
        os.write(self.file, text.encode())

    def exit_codes(self):
        """Of the commands that have ended; the first is that of the prompt before them."""
        return [int(code) for code in self.codes.read_text().split()]

    def end(self):
        """Ends the shell and what still runs in it."""
        # Interactive shells hand this on to their jobs.
        os.kill(self.pid, signal.SIGHUP)
        end = time.monotonic() + 5
        while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
            self.read(0.02)
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
        os.close(self.file)
