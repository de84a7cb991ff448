"""A real redis-server, on a socket in a directory of its own."""

import shutil
import subprocess
import time

import pytest


class Server:
    """Started with ``options``; stopped and started again it has what it wrote down (appendonly)."""

    def __init__(self, place):
        self.place, self.socket = place, place / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._process = None
        self.start()

    def start(self):
        found = shutil.which("redis-server")
        if found is None:
            pytest.fail("redis-server is not installed: apt-get install redis-server")
        options = ["--port", "0", "--unixsocket", str(self.socket), "--save", "", "--appendonly", "yes"]
        self._process = subprocess.Popen(
            [found, *options, "--dir", str(self.place), "--appendfsync", "everysec"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 30
        while not self._answers():
            assert time.monotonic() < deadline, "redis-server did not start"
            time.sleep(0.02)

    def _answers(self):
        import redis

        try:
            with self.client() as client:
                return client.ping()
        except redis.exceptions.RedisError:
            return False

    def client(self):
        import redis

        return redis.Redis(unix_socket_path=str(self.socket))

    def stop(self):
        self._process.terminate()
        self._process.wait()
