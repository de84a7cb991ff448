"""Between a client and a PostgreSQL server: hands bytes on, and cuts one connection off at its next COMMIT."""

import socket
import threading
from contextlib import suppress

BEFORE, AFTER = "before", "after"
"""The server never hears of COMMIT; the server commits, and its answer is lost."""


class CuttingProxy:
    """On a socket of the same name in ``place``, in front of the server's in ``server``."""

    def __init__(self, server, place):
        self._server = str(server / ".s.PGSQL.5432")
        self.mode, self.cuts, self.closed = None, 0, False
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._door.bind(str(place / ".s.PGSQL.5432"))
        (place / ".s.PGSQL.5432").chmod(0o777)
        self._door.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, mode, *, then_closed=False):
        """The next connection that sends COMMIT. ``then_closed``: no new one is taken afterwards."""
        self.mode, self._then_closed = mode, then_closed

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                if self.closed:
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                server.connect(self._server)
                pair = _Pair(self, client, server)
                threading.Thread(target=pair.up, daemon=True).start()
                threading.Thread(target=pair.down, daemon=True).start()

    def close(self):
        self._door.close()


class _Pair:
    def __init__(self, proxy, client, server):
        self.proxy, self.client, self.server, self.silent = proxy, client, server, False

    def up(self):
        with suppress(OSError):
            while data := self.client.recv(65536):
                mode = self.proxy.mode
                if mode is not None and b"COMMIT\0" in data:
                    self.proxy.mode, self.silent = None, True
                    self.proxy.cuts += 1
                    self.proxy.closed = self.proxy._then_closed
                    if mode == AFTER:
                        self.server.sendall(data)
                        return  # `down` cuts when the server has answered
                    break
                self.server.sendall(data)
        self.end()

    def down(self):
        with suppress(OSError):
            while data := self.server.recv(65536):
                if self.silent:
                    break
                self.client.sendall(data)
        self.end()

    def end(self):
        for one in (self.client, self.server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
