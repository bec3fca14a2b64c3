"""Archives of exported mail: unpacked whole, or refused with nothing left behind."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from dagster_project.sources.packed_mail import holds_mail, unpack
from tests.archives import Mail, mbox
from transforms.errors import SourceError

MBOX = mbox([Mail(1), Mail(2)])
FILES = {
    "Takeout/Mail/All mail.mbox": MBOX,
    "Takeout/Mail/Sent.mbox": MBOX,
    "Takeout/a.html": b"<p>",
}


def packed(place: Path, files: dict[str, bytes] = FILES) -> Path:
    if place.suffix == ".zip":
        with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return place
    with tarfile.open(place, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return place


@pytest.mark.parametrize("name", ["takeout.zip", "takeout.tgz", "takeout.tar.gz"])
def test_the_mail_of_an_archive_is_unpacked(tmp_path: Path, name: str):
    file, folder = packed(tmp_path / name), tmp_path / "root" / "unpacked" / "takeout"
    assert holds_mail(file)
    for _ in range(2):
        assert str(folder) in unpack(file, folder)
        names = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert names == {"001-All mail.mbox": MBOX, "002-Sent.mbox": MBOX}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.parent.iterdir()] == ["takeout"]


def test_other_files_hold_no_mail(tmp_path: Path):
    for name in ("a.zip", "a.tgz"):
        assert not holds_mail(packed(tmp_path / name, {"a.txt": b"a"}))
        (tmp_path / name).write_bytes(b"PK")
        assert not holds_mail(tmp_path / name)
    assert not holds_mail(tmp_path / "none.mbox")


def test_a_bomb_before_the_mail_is_not_decompressed(tmp_path: Path):
    zeros = b"\0" * (40 << 20)
    assert not holds_mail(packed(tmp_path / "a.tgz", {"a.bin": zeros, "b.mbox": MBOX}))
    assert holds_mail(packed(tmp_path / "b.tgz", {"a.bin": zeros[:1000], "b.mbox": MBOX}))


@pytest.mark.parametrize("name", ["bomb.zip", "bomb.tgz"])
def test_a_bomb_is_refused_and_leaves_nothing(tmp_path: Path, name: str):
    file = packed(tmp_path / name, {"a.mbox": MBOX, "b.mbox": b"\0" * (40 << 20)})
    assert file.stat().st_size * 250 < 40 << 20
    with pytest.raises(SourceError, match="unpacks to more than"):
        unpack(file, tmp_path / "root" / "x")
    assert list((tmp_path / "root").iterdir()) == []


@pytest.mark.parametrize("name", ["cut.zip", "cut.tgz"])
def test_an_archive_that_breaks_off_leaves_what_was_there(tmp_path: Path, name: str):
    file, folder = packed(tmp_path / name), tmp_path / "root" / "x"
    unpack(file, folder)
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(SourceError, match="export it again"):
        unpack(file, folder)
    assert len(list(folder.iterdir())) == 2
