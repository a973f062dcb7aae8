"""A Kerberos KDC on this machine, with Debian's krb5-kdc."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Final

from tandem_kafka_testing.kafka.ports import free_ports

__all__ = ["CLIENT", "REALM", "SERVICE", "Kdc"]

REALM: Final = "TESTS.INVALID"
CLIENT: Final = f"alice@{REALM}"
SERVICE: Final = f"kafka/localhost@{REALM}"
_START_S: Final = 60.0


class Kdc:
    """A KDC with a client and a service.

    Attributes:
        config: The file for `KRB5_CONFIG`.
        keytab: The keys of the service.
        client_keytab: The key of the client.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        self.config = folder / "krb5.conf"
        self.keytab = folder / "service.keytab"
        self.client_keytab = folder / "client.keytab"
        self.config.write_text(
            f"""[libdefaults]
 default_realm = {REALM}
 dns_lookup_realm = false
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {REALM} = {{
  kdc = 127.0.0.1:{port}
 }}
"""
        )
        (folder / "kdc.conf").write_text(
            f"""[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {REALM} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
 }}
"""
        )
        self._environment = {
            **os.environ,
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
        }
        self._run("kdb5_util", "create", "-s", "-P", "of the database")
        for name, keytab in ((SERVICE, self.keytab), (CLIENT, self.client_keytab)):
            self._run("kadmin.local", "addprinc", "-randkey", name)
            self._run("kadmin.local", "ktadd", "-k", str(keytab), name)
        self._process = subprocess.Popen(
            [_path("krb5kdc"), "-n", "-P", str(folder / "pid")],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait(port)

    @staticmethod
    def missing() -> str | None:
        """Return why no KDC can be started, or None."""
        programs = ("krb5kdc", "kdb5_util", "kadmin.local")
        absent = [name for name in programs if _path(name) == ""]
        return f"install krb5-kdc and krb5-admin-server: no {', '.join(absent)}" if absent else None

    def close(self) -> None:
        """Stop the KDC."""
        self._process.kill()
        self._process.wait()

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [_path(program), *arguments], env=self._environment, check=True, capture_output=True
        )

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.02)
            else:
                return


def _path(program: str) -> str:
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") or ""
