"""Out-of-band channel between the two processes of a case: JSON, one line each, over TCP."""

import json
import socket

#: Longest wait for the other process, in seconds.
PATIENCE_S = 30


class Channel:
    """One end; both ends speak in turn."""

    def __init__(self, sock):
        sock.settimeout(PATIENCE_S)
        # Two files: one for both directions forgets what it read ahead when it is written to.
        self._hears, self._tells = sock.makefile("r"), sock.makefile("w")

    @classmethod
    def listen(cls, port):
        with socket.create_server(("127.0.0.1", port)) as server:
            server.settimeout(PATIENCE_S)
            return cls(server.accept()[0])

    @classmethod
    def connect(cls, port):
        return cls(socket.create_connection(("127.0.0.1", port), PATIENCE_S))

    def tell(self, **what):
        self._tells.write(json.dumps(what) + "\n")
        self._tells.flush()

    def hear(self):
        line = self._hears.readline()
        if not line:
            raise EOFError("the other process ended")
        return json.loads(line)

    def swap(self, **what):
        """Tells and hears; neither returns before the other called it."""
        self.tell(**what)
        return self.hear()

    def wait_for_end(self):
        """Returns when the other process has ended."""
        try:
            rest = self._hears.readline()
        except ConnectionResetError:
            return
        assert not rest, f"the other process goes on: {rest}"
