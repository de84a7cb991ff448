"""A real PostgreSQL server, on a socket in a directory of its own; small, and as durable as one in use."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

OWNER = "discreet"
SETTINGS = {
    "listen_addresses": "''",
    "shared_buffers": "16MB",
    "max_connections": "100",
    "work_mem": "1MB",
    "maintenance_work_mem": "16MB",
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
    "autovacuum": "off",
    "wal_writer_delay": "10s",  # a stop at once loses what no commit has written
    "max_parallel_workers": "0",
    "jit": "off",
}


def binaries():
    """Where the newest server of this machine is."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parent.parent.name))
    on_path = shutil.which("postgres")
    if not found and on_path is None:
        pytest.fail("PostgreSQL is not installed: apt-get install postgresql")
    return found[-1].parent if found else Path(on_path).parent


class Server:
    """A cluster of its own: made, started, started again, stopped."""

    def __init__(self, place):
        self.place, self.data, self._bin = place, place / "data", binaries()
        self.data.mkdir(parents=True)
        if os.geteuid() == 0:  # the server refuses to run as root
            os.chown(place, *self._who())
            os.chown(self.data, *self._who())
        self._run(
            "initdb", "--no-sync", "-D", self.data, "-A", "trust", "-U", OWNER, "-E", "UTF8", "--locale", "C.UTF-8"
        )
        self.start()
        self._count = 0

    def _who(self):
        user = pwd.getpwnam("postgres")
        return user.pw_uid, user.pw_gid

    def _run(self, program, *arguments):
        who = {}
        if os.geteuid() == 0:
            uid, gid = self._who()
            who = {"user": uid, "group": gid, "extra_groups": []}
        command = [str(self._bin / program), *map(str, arguments)]
        with (self.place / "output").open("ab") as output:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", **who)
        if done.returncode:
            pytest.fail(f"{program} failed: {(self.place / 'output').read_text(errors='replace')[-2000:]}")

    def start(self, **settings):
        told = {**SETTINGS, "unix_socket_directories": str(self.place), **settings}
        options = " ".join(f"-c {name}={value}" for name, value in told.items())
        self._run("pg_ctl", "-D", self.data, "-w", "-t", 60, "-l", self.data / "log", "-o", options, "start")

    def stop(self, mode="fast"):
        """ "fast": connections are ended; "immediate": as if the machine had stopped."""
        self._run("pg_ctl", "-D", self.data, "-w", "-t", 60, "-m", mode, "stop")

    def restart(self, mode="immediate", **settings):
        self.stop(mode)
        self.start(**settings)

    def admin(self):
        """A connection of the server's owner."""
        import psycopg

        return psycopg.connect(f"postgresql://{OWNER}@/postgres?host={self.place}", autocommit=True)

    def drop(self, address):
        with self.admin() as connection:
            connection.execute(f"drop database {address.partition('@/')[2].partition('?')[0]} with (force)")

    def database(self):
        """The address of a new, empty database, and the name of it."""
        self._count += 1
        name = f"campaigns{self._count}"
        with self.admin() as connection:
            connection.execute(f"create database {name}")
        return f"postgresql://{OWNER}@/{name}?host={self.place}"
