"""A real S3 server on loopback."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
import s3fs

from mom_pipeline_tests.running import free_port

BUCKET = "shards"
REGION = "us-east-1"


class ObjectStore:
    """The process of a server. checked: whether it knows its users' keys and refuses others."""

    def __init__(self, log: Path, *, checked: bool = False) -> None:
        self.log, self.checked = log, checked
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # Calls before keys are looked at: those that make the user and the bucket.
        unchecked = {"INITIAL_NO_AUTH_ACTION_COUNT": "4"} if self.checked else {}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
                env={**os.environ, **unchecked},
                stdout=log,
                stderr=log,
            )
        wait_for(self.port)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def make_bucket(self) -> None:
        self._client("s3").create_bucket(Bucket=BUCKET)

    def make_user(self) -> tuple[str, str]:
        """Return the key and the secret of a user who may do anything with the store."""
        iam = self._client("iam")
        iam.create_user(UserName="pipeline")
        iam.put_user_policy(
            UserName="pipeline",
            PolicyName="store",
            PolicyDocument=(
                '{"Version": "2012-10-17", "Statement": '
                '[{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'
            ),
        )
        key = iam.create_access_key(UserName="pipeline")["AccessKey"]
        return key["AccessKeyId"], key["SecretAccessKey"]

    def names(self) -> list[str]:
        listed = self._client("s3").list_objects_v2(Bucket=BUCKET)
        return [entry["Key"] for entry in listed.get("Contents", [])]

    def _client(self, service: str):
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id="anyone",
            aws_secret_access_key="anything",
        )


@contextmanager
def object_store(log: Path, *, checked: bool = False) -> Iterator[ObjectStore]:
    """A server for as long as the block lasts, with a bucket unless keys are checked."""
    store = ObjectStore(log, checked=checked)
    store.start()
    try:
        if not checked:
            store.make_bucket()
        yield store
    finally:
        store.kill()


def use_store(
    monkeypatch: pytest.MonkeyPatch, url: str, key: str = "anyone", secret: str = "anything"
) -> None:
    """Put the store and the keys into the environment, where workers find them too."""
    for name, value in {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()


def wait_for(port: int, seconds: float = 30.0) -> None:
    """Wait until a server answers."""
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
