"""KDD Cup 99, the 10% set: network connections, normal or an attack, as gzip CSV of 42 columns without a header.

The stream paper's preparation: `num_outbound_cmds` and `is_host_login` are left out, seven columns are choices and
become one number for each of their values, thirty-two are numbers as they came: 120 features. Values of choices are a
declared list; one that is not on it gives zeros. Nothing is fitted.

Every 25th record is kept for the test. The set has many records that are equal, and some of them are on both sides.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.stream.columns import ChoiceColumn, NumberColumn, RecordSchema

Floats = NDArray[np.float64]
FILE = "kddcup.data_10_percent.gz"
TEST_EVERY = 25
NORMAL = "normal."

_BINARY = ("0", "1")
_SERVICES = """IRC X11 Z39_50 auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i efs exec
finger ftp ftp_data gopher hostnames http http_443 imap4 iso_tsap klogin kshell ldap link login mtp name netbios_dgm
netbios_ns netbios_ssn netstat nnsp nntp ntp_u other pm_dump pop_2 pop_3 printer private red_i remote_job rje shell smtp
sql_net ssh sunrpc supdup systat telnet tftp_u tim_i time urh_i urp_i uucp uucp_path vmnet whois"""
CHOICES: dict[str, tuple[str, ...]] = {
    "protocol_type": ("icmp", "tcp", "udp"),
    "service": tuple(_SERVICES.split()),
    "flag": ("OTH", "REJ", "RSTO", "RSTOS0", "RSTR", "S0", "S1", "S2", "S3", "SF", "SH"),
    "land": _BINARY,
    "logged_in": _BINARY,
    "root_shell": _BINARY,
    "is_guest_login": _BINARY,
}
LEFT_OUT = ("num_outbound_cmds", "is_host_login")
_COLUMNS = """duration protocol_type service flag src_bytes dst_bytes land wrong_fragment urgent hot num_failed_logins
logged_in num_compromised root_shell su_attempted num_root num_file_creations num_shells num_access_files
num_outbound_cmds is_host_login is_guest_login count srv_count serror_rate srv_serror_rate rerror_rate srv_rerror_rate
same_srv_rate diff_srv_rate srv_diff_host_rate dst_host_count dst_host_srv_count dst_host_same_srv_rate
dst_host_diff_srv_rate dst_host_same_src_port_rate dst_host_srv_diff_host_rate dst_host_serror_rate
dst_host_srv_serror_rate dst_host_rerror_rate dst_host_srv_rerror_rate label"""
NAMES = tuple(_COLUMNS.split())
SCHEMA = RecordSchema(
    columns=tuple(
        ChoiceColumn(name=name, values=CHOICES[name]) if name in CHOICES else NumberColumn(name=name)
        for name in NAMES[:-1]
        if name not in LEFT_OUT
    )
)


@dataclass(frozen=True, repr=False)
class Connections:
    """Records by columns; rows of features are made of those that are asked for."""

    columns: dict[str, NDArray[Any]]
    count: int

    def __len__(self) -> int:
        return self.count

    def rows(self, places: NDArray[Any]) -> Floats:
        """(n, 120) features of the records at ``places``, not scaled."""
        return SCHEMA.table({name: values[places] for name, values in self.columns.items()}, len(places))


def read_connections(paths: Sequence[Path]) -> tuple[Connections, NDArray[np.int64], Connections, NDArray[np.int64]]:
    """Records and classes (1: an attack), for the stream and for the test."""
    import pyarrow
    from pyarrow import csv

    content = gzip.decompress(paths[0].read_bytes())
    kinds = {name: pyarrow.string() if name in CHOICES or name == "label" else pyarrow.float64() for name in NAMES}
    try:
        table = csv.read_csv(
            io.BytesIO(content),
            read_options=csv.ReadOptions(column_names=list(NAMES)),
            convert_options=csv.ConvertOptions(column_types=kinds),
        )
    except pyarrow.ArrowException:
        raise ValueError from None
    columns = {column.name: _column(table, column.name) for column in SCHEMA.columns}
    classes = (np.asarray(table["label"].to_pylist()) != NORMAL).astype(np.int64)
    test = np.arange(len(classes)) % TEST_EVERY == 0
    held, stream = ({name: values[part] for name, values in columns.items()} for part in (test, ~test))
    return (
        Connections(stream, int((~test).sum())),
        classes[~test],
        Connections(held, int(test.sum())),
        classes[test],
    )


def _column(table: Any, name: str) -> NDArray[Any]:
    if name not in CHOICES:
        return np.asarray(table[name].to_numpy())
    coded = table[name].combine_chunks().dictionary_encode()  # few different words: much faster than a list of all
    words: NDArray[Any] = np.asarray(coded.dictionary.to_pylist())
    return np.asarray(words[np.asarray(coded.indices)])
