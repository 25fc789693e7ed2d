"""A TCP proxy on this machine that can be unreachable, or cut connections in their middle."""

from __future__ import annotations

import random
import select
import socket
import threading
from contextlib import suppress

_PIECE_BYTES = 1 << 16


class UnsteadyProxy:
    """Forwards ``port`` to ``to_port``. ``cuts``: connections that were cut; ``refused``: that came while it was off."""

    def __init__(self, port: int, to_port: int, seed: int = 1) -> None:
        self.cuts = self.refused = 0
        self._to_port, self._random = to_port, random.Random(seed)
        self._is_off, self._cut_share = False, 0.0
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def off(self) -> None:
        """From now on, connections are closed at once, and those that are open too."""
        self._is_off = True

    def on(self, cut_share: float = 0.0) -> None:
        """Forwards again; ``cut_share`` of the connections are cut after up to 100 KB."""
        self._is_off, self._cut_share = False, cut_share

    def _accept(self) -> None:
        while True:
            client, _ = self._server.accept()
            if self._is_off:
                self.refused += 1
                client.close()
                continue
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        left = self._random.randrange(100_000) if self._random.random() < self._cut_share else 1 << 60
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._to_port)) as server:
            while not self._is_off:
                for each in select.select([client, server], [], [], 0.2)[0]:
                    piece = each.recv(_PIECE_BYTES)
                    if not piece:
                        return
                    (server if each is client else client).sendall(piece[:left])
                    left -= len(piece)
                    if left <= 0:
                        self.cuts += 1
                        return
