"""Objects of S3: Amazon's client asks moto's server on loopback."""

from __future__ import annotations

import amazon_files
import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto.server import ThreadedMotoServer

from modak_ansible.errors import ModakError
from modak_ansible.sources.base import SourceProblem
from modak_ansible.sources.s3 import _place

pytestmark = pytest.mark.component  # which talks to a server of its own

FILES = {"train/a b+c.csv": b"x,y\n1,2\n", "train/deep/ä.csv": b"3", "test.csv": b"4", "trainer.txt": b"5"}
LARGE = bytes(range(256)) * 40_000


@pytest.fixture(scope="module", autouse=True)
def files_once():
    with pytest.MonkeyPatch.context() as patch:
        amazon_files.share(patch)
        yield


@pytest.fixture(scope="module")
def server():
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    address = f"http://{host}:{port}"
    login = {"aws_access_key_id": "alice", "aws_secret_access_key": "sesame"}
    yield address, boto3.client("s3", endpoint_url=address, region_name="us-east-1", **login)
    running.stop()


@pytest.fixture
def bucket(server, sources, tmp_path, monkeypatch):
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("ACCESS_KEY_ID", "alice"), ("SECRET_ACCESS_KEY", "sesame"), ("EC2_METADATA_DISABLED", "true")):
        monkeypatch.setenv(f"AWS_{name}", value)
    for name in ("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / name))
    address, client = server
    client.create_bucket(Bucket="flowers")
    for name, content in FILES.items():
        client.put_object(Bucket="flowers", Key=name, Body=content)
    client.put_object(Bucket="flowers", Key="train/", Body=b"")
    client.name = "s3://flowers"
    client.query = f"?endpoint_url={address}"
    yield client
    for each in client.list_objects_v2(Bucket="flowers")["Contents"]:
        client.delete_object(Bucket="flowers", Key=each["Key"])


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("", ["test.csv", "train/a b+c.csv", "train/deep/ä.csv", "trainer.txt"]),
        ("/train", ["a b+c.csv", "deep/ä.csv"]),
        ("/train/", ["a b+c.csv", "deep/ä.csv"]),
        ("/**/*.csv", ["test.csv", "train/a b+c.csv", "train/deep/ä.csv"]),
        ("/test.csv", ["test.csv"]),
        ("/tes?.csv", ["test.csv"]),
    ],
)
def test_a_folder_a_pattern_or_a_file(bucket, sources, path, names):
    _, source = sources.one(bucket.name + path + bucket.query)
    assert [file.name for file in source.files] == names
    assert source.contents.size == sum(file.size for file in source.files)


@pytest.mark.parametrize("reaches", [True, False])
def test_it_is_brought_and_no_login_is_written(bucket, sources, tmp_path, reaches):
    _, source = sources.one(bucket.name + bucket.query)
    carrier = sources.Carrier(tmp_path, reaches=reaches)
    assert sources.brought(source, carrier) == FILES
    assert bool(carrier.fetched) == reaches
    for word in ("sesame", "alice", "Signature"):
        assert word not in source.model_dump_json() + "".join(carrier.lines)


def test_what_was_fetched_in_part_is_gone_on_with(bucket, sources, tmp_path):
    parts = boto3.s3.transfer.TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
    (tmp_path / "large").write_bytes(LARGE)
    bucket.upload_file(str(tmp_path / "large"), "flowers", "large.bin", Config=parts)
    _, source = sources.one(f"{bucket.name}/large.bin{bucket.query}")
    assert source.files[0].version.endswith("-2")
    carrier = sources.Carrier(tmp_path, reaches=True)
    (tmp_path / "partial").mkdir()
    (tmp_path / "partial" / "large.bin").write_bytes(b"!" + LARGE[1:6_000_000])
    found = sources.brought(source, carrier)["large.bin"]
    assert (found[:1], found[1:]) == (b"!", LARGE[1:])  # the first part was not fetched again


def test_what_changed_since_the_plan_is_said(bucket, sources, tmp_path):
    _, source = sources.one(bucket.name + bucket.query)
    bucket.put_object(Bucket="flowers", Key="test.csv", Body=b"other")
    with pytest.raises(ModakError, match="test.csv has changed since the plan was made"):
        sources.brought(source, sources.Carrier(tmp_path, reaches=True))
    bucket.delete_object(Bucket="flowers", Key="test.csv")
    with pytest.raises(ModakError, match="test.csv is not there any more"):
        sources.brought(source, sources.Carrier(tmp_path, reaches=True))


def test_what_changes_while_it_is_fetched_is_said(bucket, sources, tmp_path):
    _, source = sources.one(f"{bucket.name}/test.csv{bucket.query}")
    carrier = sources.Carrier(tmp_path, reaches=True)
    true = carrier.have_fetched

    def later(source, access):
        bucket.put_object(Bucket="flowers", Key="test.csv", Body=b"9")
        true(source, access)

    carrier.have_fetched = later
    with pytest.raises(ModakError, match="test.csv has changed since the plan was made"):
        sources.brought(source, carrier)


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        ("s3://flower{}", "there is no bucket flower", "did you mean flowers?"),
        ("s3://flowers/trian{}", "there is no file or folder trian in s3://flowers", "did you mean train?"),
        ("s3://flowers/*.none{}", "nothing matches *.none in s3://flowers", ""),
        ("s3://{}", "names no bucket", "s3://BUCKET"),
        ("s3://Flowers{}", "names no bucket", "s3://BUCKET"),
        ("s3://flowers?endpoint=x", "endpoint is not a setting of this kind of source", "did you mean endpoint_url?"),
        ("s3://flowers?endpoint_url=minio", "minio is not the address of a server", "https://HOST:PORT"),
        ("s3://flowers?endpoint_url=http://127.0.0.1:9", "s3://flowers cannot be asked: Could not connect", "the network"),
        ("s3://flowers{}&profile=none", "s3://flowers cannot be asked: The config profile (none)", "aws configure"),
    ],
)  # fmt: skip
def test_what_is_refused(bucket, sources, monkeypatch, text, reason, hint):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    found = sources.problem(text.format(bucket.query))
    assert reason in found.reason
    assert hint in found.hint


@pytest.mark.parametrize(
    ("code", "status", "told"),
    [
        ("AccessDenied", 403, "cannot be read with this login: AccessDenied"),
        ("InvalidAccessKeyId", 403, "cannot be read with this login: InvalidAccessKeyId"),
        ("ExpiredToken", 400, "the login for s3://flowers has expired"),
        ("SlowDown", 503, "s3://flowers answers SlowDown"),
    ],
)
def test_a_login_that_does_not_do(bucket, sources, monkeypatch, code, status, told):
    """moto lets everybody in: the answers are a server's own of that form."""
    from botocore.awsrequest import AWSResponse

    class Raw:
        def stream(self, *arguments, **more):
            yield f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()

    def send(self, request):
        return AWSResponse(request.url, status, {}, Raw())

    with monkeypatch.context() as patched:
        patched.setenv("AWS_MAX_ATTEMPTS", "1")
        patched.setattr("botocore.httpsession.URLLib3Session.send", send)
        found = sources.problem(bucket.name + bucket.query)
    assert told in found.reason


def test_a_bucket_of_everybodys_needs_no_login(bucket, sources, tmp_path, monkeypatch):
    bucket.put_bucket_acl(Bucket="flowers", ACL="public-read")
    for name in FILES:
        bucket.put_object_acl(Bucket="flowers", Key=name, ACL="public-read")
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.delenv(f"AWS_{name}")
    _, source = sources.one(f"{bucket.name}/test.csv{bucket.query}")
    carrier = sources.Carrier(tmp_path, reaches=True)
    assert sources.brought(source, carrier) == {"test.csv": b"4"}


def test_a_frozen_object(bucket, sources):
    bucket.put_object(Bucket="flowers", Key="old/x", Body=b"1", StorageClass="GLACIER")
    assert (
        "s3://flowers/old/x lies in the archive GLACIER" in sources.problem(f"{bucket.name}/old{bucket.query}").reason
    )


@given(st.text(max_size=30))
def test_any_text_is_a_place_or_is_refused(text):
    try:
        place = _place(f"s3://{text}")
    except SourceProblem:
        return
    assert "/" not in place.bucket
