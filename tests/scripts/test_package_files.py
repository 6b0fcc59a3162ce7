"""The packers of scripts/package on a few small files: what is in a wheel and a tarball, and that both are reproducible."""

import ast
import base64
import csv
import hashlib
import io
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
import zlib
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts" / "lib"), str(ROOT / "tests" / "scripts")]

import package_deb  # noqa: E402
import package_files  # noqa: E402
import package_tarball  # noqa: E402
import package_wheel  # noqa: E402
import program_checks  # noqa: E402

STAGED = {"bin/ddprun": 0o755, "bin/ddpctl": 0o755, "bin/rdzvd": 0o755, "libexec/ddprun/train": 0o755, "share/man/man1/ddprun.1": 0o644,
          "include/ddprun/ddprun_elastic.h": 0o644, "include/ddprun/ddprun_progress.h": 0o644, "share/bash-completion/completions/ddprun": 0o644}


def wheel_of(stage, arch="x86_64"):
    files = package_wheel.wheel_files(package_files.staged(stage), ROOT / "python" / "ddprun", "1.2.3", "2.28", arch)
    return package_wheel.zipped(files, package_files.timestamp())


def tarball_of(stage, arch="x86_64"):
    files = package_tarball.tarball_files(package_files.staged(stage), f"ddprun-1.2.3-linux-{arch}", "2.28", arch)
    return package_tarball.archive(files, package_files.timestamp())


class Packed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.stage = self.stage_in("stage", sorted(STAGED))

    def stage_in(self, name, order):
        stage = self.folder / name
        for file in order:
            (stage / file).parent.mkdir(parents=True, exist_ok=True)
            (stage / file).write_text(f"contents of {file}\n" * 100)
            (stage / file).chmod(STAGED[file])
        return stage

    def test_a_wheel_has_the_same_bytes_whenever_and_in_whatever_order_its_files_were_made(self):
        other = self.stage_in("another stage", sorted(STAGED, reverse=True))
        for file in STAGED:
            os.utime(other / file, (1, 1_000_000_000))
        self.assertEqual(wheel_of(self.stage), wheel_of(other))
        (other / "bin/ddprun").write_text("another program")
        self.assertNotEqual(wheel_of(self.stage), wheel_of(other))

    def test_a_tarball_has_the_same_bytes_whenever_and_in_whatever_order_its_files_were_made(self):
        other = self.stage_in("another stage", sorted(STAGED, reverse=True))
        for file in STAGED:
            os.utime(other / file, (1, 1_000_000_000))
        self.assertEqual(tarball_of(self.stage), tarball_of(other))
        (other / "bin/ddprun").chmod(0o644)
        self.assertNotEqual(tarball_of(self.stage), tarball_of(other))

    def test_a_tarball_is_unpacked_by_what_the_barest_system_has(self):
        tools, target = self.folder / "tools", self.folder / "unpacked"
        for folder in (tools, target):
            folder.mkdir()
        for name in ("tar", "gzip"):
            (tools / name).symlink_to(shutil.which(name))
        (self.folder / "a.tar.gz").write_bytes(tarball_of(self.stage))
        subprocess.run([tools / "tar", "-xzf", self.folder / "a.tar.gz", "-C", target], check=True, env={"PATH": str(tools)})
        self.assertTrue(os.access(target / "ddprun-1.2.3-linux-x86_64" / "bin" / "ddprun", os.X_OK))

    def test_the_record_of_a_wheel_lists_every_file_with_its_hash_and_size(self):
        archive = zipfile.ZipFile(io.BytesIO(wheel_of(self.stage)))
        record = {row[0]: row[1:] for row in csv.reader(io.StringIO(archive.read("ddprun-1.2.3.dist-info/RECORD").decode()))}
        self.assertEqual(sorted(record), sorted(archive.namelist()))
        self.assertEqual(archive.namelist()[-1], "ddprun-1.2.3.dist-info/RECORD")
        self.assertEqual(record.pop("ddprun-1.2.3.dist-info/RECORD"), ["", ""])
        for name, (digest, size) in record.items():
            content = archive.read(name)
            self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("="))
            self.assertEqual(int(size), len(content))

    def test_a_wheel_has_programs_as_scripts_all_else_as_data_and_the_python_package(self):
        archive = zipfile.ZipFile(io.BytesIO(wheel_of(self.stage)))
        names = archive.namelist()
        for name in ("ddprun/__init__.py", "ddprun/__main__.py", "ddprun/doctor.py", "ddprun/py.typed", "ddprun/_version.py",
                     "ddprun-1.2.3.data/scripts/ddprun", "ddprun-1.2.3.data/scripts/ddpctl", "ddprun-1.2.3.data/scripts/rdzvd", "ddprun-1.2.3.data/data/libexec/ddprun/train",
                     "ddprun-1.2.3.data/data/share/man/man1/ddprun.1",
                     "ddprun-1.2.3.data/data/include/ddprun/ddprun_elastic.h",
                     "ddprun-1.2.3.data/data/include/ddprun/ddprun_progress.h",
                     "ddprun-1.2.3.dist-info/licenses/LICENSE", "ddprun-1.2.3.dist-info/licenses/THIRD_PARTY_NOTICES"):
            self.assertIn(name, names)
        self.assertFalse([name for name in names if "__pycache__" in name])
        self.assertIn("\nTag: py3-none-manylinux_2_28_x86_64\n", archive.read("ddprun-1.2.3.dist-info/WHEEL").decode())
        for entry in archive.infolist():
            self.assertEqual(bool(entry.external_attr >> 16 & 0o111), bool(re.search("/(scripts|libexec)/", entry.filename)), entry.filename)

    def test_the_wheel_of_another_architecture_differs_in_its_tag_alone(self):
        archives = [zipfile.ZipFile(io.BytesIO(wheel_of(self.stage, arch))) for arch in ("x86_64", "aarch64")]
        contents = [{name: archive.read(name).decode() for name in archive.namelist()} for archive in archives]
        self.assertIn("\nTag: py3-none-manylinux_2_28_aarch64\n", contents[1]["ddprun-1.2.3.dist-info/WHEEL"])
        different = {name for name in contents[0] if contents[0][name] != contents[1].get(name)}
        self.assertEqual(different, {"ddprun-1.2.3.dist-info/WHEEL", "ddprun-1.2.3.dist-info/RECORD"})

    def test_the_metadata_of_a_wheel_begin_with_its_fields_and_end_with_the_readme(self):
        text = zipfile.ZipFile(io.BytesIO(wheel_of(self.stage))).read("ddprun-1.2.3.dist-info/METADATA").decode()
        head, body = text.split("\n\n", 1)
        self.assertTrue(head.startswith("Metadata-Version: 2.4\nName: ddprun\nVersion: 1.2.3\n"), head)
        self.assertRegex(head, r"(?m)^License-Expression: Apache-2\.0$")
        self.assertEqual(body, (ROOT / "README.md").read_text())

    def stage_documents(self):
        """Puts what CMakeLists.txt installs as documents into the stage."""
        folder = self.stage / "share/doc/ddprun"
        shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
        installed = re.search(r"(?m)^install\(FILES (.*) DESTINATION \$\{CMAKE_INSTALL_DOCDIR\}\)$", (ROOT / "CMakeLists.txt").read_text())
        for name in installed.group(1).split():
            shutil.copy(ROOT / name, folder)

    def test_the_documents_of_each_package_link_only_to_files_of_the_package(self):
        self.stage_documents()
        staged = package_files.staged(self.stage)
        packages = {
            "wheel": package_wheel.wheel_files(staged, ROOT / "python" / "ddprun", "1.2.3", "2.28", "x86_64"),
            "tarball": package_tarball.tarball_files(staged, "ddprun-1.2.3-linux-x86_64", "2.28", "x86_64"),
            "deb": package_deb.package_files_of(staged, "ddprun", "1.2.3-1", "Some One <one@some.org>", 1_700_000_000)}
        for package, files in packages.items():
            names = {file.name for file in files}
            links = [(file.name, target) for file in files if file.name.endswith(".md")
                     for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", file.content.decode()) if "://" not in target]
            self.assertGreater(len(links), 100, package)
            lost = [f"{name}: {target}" for name, target in links if os.path.normpath(pathlib.PurePath(name).parent / target) not in names]
            self.assertEqual(lost, [], package)

    def test_compiled_files_of_python_are_neither_installed_nor_packed(self):
        self.assertRegex((ROOT / "CMakeLists.txt").read_text(), r"(?m)^install\(DIRECTORY docs .* PATTERN __pycache__ EXCLUDE\)$")
        compiled = self.stage / "share/doc/ddprun/docs/cookbook/examples/__pycache__"
        compiled.mkdir(parents=True)
        (compiled / "hello.cpython-311.pyc").touch()
        self.assertRaisesRegex(SystemExit, "examples/__pycache__ has compiled files", package_files.staged, self.stage)

    def test_the_version_is_that_of_the_project(self):
        text = (ROOT / "CMakeLists.txt").read_text()
        self.assertIn(f"project(ddprun VERSION {package_files.version()} ", text)

    def test_the_time_of_files_is_the_source_date_and_no_time_before_zip_files_began(self):
        with mock.patch.dict(os.environ, {"SOURCE_DATE_EPOCH": "1700000000"}):
            entry = zipfile.ZipFile(io.BytesIO(wheel_of(self.stage))).infolist()[0]
            self.assertEqual(entry.date_time, (2023, 11, 14, 22, 13, 20))
        with mock.patch.dict(os.environ, {"SOURCE_DATE_EPOCH": "0"}):
            self.assertEqual(zipfile.ZipFile(io.BytesIO(wheel_of(self.stage))).infolist()[0].date_time, (1980, 1, 1, 0, 0, 0))
        with mock.patch.dict(os.environ, {"SOURCE_DATE_EPOCH": "yesterday"}):
            self.assertRaisesRegex(SystemExit, "SOURCE_DATE_EPOCH=yesterday", package_files.timestamp)

    def test_a_stage_without_a_program_or_with_a_link_is_refused(self):
        (self.stage / "share" / "link").symlink_to("nowhere")
        self.assertRaisesRegex(SystemExit, "share/link is a link", package_files.staged, self.stage)
        (self.stage / "bin" / "rdzvd").unlink()
        self.assertRaisesRegex(SystemExit, "bin/rdzvd is missing", package_files.staged, self.stage)

    def test_a_tarball_is_one_folder_with_modes_and_owned_by_root(self):
        archive = tarfile.open(fileobj=io.BytesIO(tarball_of(self.stage)))
        for entry in archive.getmembers():
            self.assertTrue(entry.name.startswith("ddprun-1.2.3-linux-x86_64/"), entry.name)
            self.assertEqual((entry.uid, entry.gid, entry.uname), (0, 0, "root"))
        self.assertEqual(archive.getmember("ddprun-1.2.3-linux-x86_64/bin/ddprun").mode, 0o755)
        self.assertEqual(archive.getmember("ddprun-1.2.3-linux-x86_64/share/man/man1/ddprun.1").mode, 0o644)

    def check_of_a_tarball(self, arch):
        archive = tarfile.open(fileobj=io.BytesIO(tarball_of(self.stage, arch)))
        check = self.folder / "check"
        check.write_bytes(archive.extractfile(f"ddprun-1.2.3-linux-{arch}/check").read())
        return check

    def run_check(self, program, libc="", machine="x86_64", arch="x86_64", mode=0o755):
        """Runs the check of a tarball with a pretended ddprun, uname and getconf; without `libc` there is no getconf."""
        (self.folder / "bin").mkdir(exist_ok=True)
        (self.folder / "bin" / "ddprun").write_text(f"#!/bin/sh\n{program}\n")
        (self.folder / "bin" / "ddprun").chmod(mode)
        commands = self.folder / "commands"
        shutil.rmtree(commands, ignore_errors=True)
        commands.mkdir()
        for name in ("sed", "sort", "head", "dirname"):
            (commands / name).symlink_to(shutil.which(name))
        pretended = {"uname": f'[ "$1" = -s ] && echo Linux || echo {machine}'} | ({"getconf": libc} if libc else {})
        for name, text in pretended.items():
            (commands / name).write_text(f"#!/bin/sh\n{text}\n")
            (commands / name).chmod(0o755)
        return subprocess.run(["/bin/sh", self.check_of_a_tarball(arch)], env={"PATH": str(commands)}, capture_output=True, text=True, check=False)

    def test_the_check_of_a_tarball_prints_the_version_wherever_the_programs_run(self):
        for libc in ("", "echo glibc 2.27", "echo glibc 2.100"):  # it asks for no getconf, and for no version if the programs run
            done = self.run_check("echo ddprun 1.2.3; echo compiler", libc)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ddprun 1.2.3\n", ""), libc)

    def test_the_check_of_a_tarball_reports_in_one_line_why_the_programs_do_not_run(self):
        loader = "echo /lib64/libc.so.6: version GLIBC_2.25 not found >&2; exit 1"
        for libc, machine, arch, words in (
                ("echo glibc 2.17", "x86_64", "x86_64", "needs glibc 2.28 or newer, this system has 2.17"),
                ("exit 1", "x86_64", "x86_64", "needs glibc 2.28 or newer, and this system seems to have another libc (musl?)"),
                ("", "x86_64", "x86_64", "needs glibc 2.28 or newer, and this system seems to have another libc (musl?)"),
                ("echo glibc 2.36", "aarch64", "x86_64", "made for Linux on x86_64, this is Linux on aarch64"),
                ("echo glibc 2.36", "x86_64", "aarch64", "made for Linux on aarch64, this is Linux on x86_64")):
            done = self.run_check(loader, libc, machine, arch)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"ddprun: {words}\n"))
        done = self.run_check("exit 0", "echo glibc 2.36", mode=0o644)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^ddprun: .*/bin/ddprun is missing, or not executable here, .*noexec\n$")

    def test_the_check_of_a_tarball_shows_the_error_of_the_program_where_it_knows_no_reason(self):
        done = self.run_check("echo a broken file >&2; exit 5", "echo glibc 2.36")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (5, "", "a broken file\n"))

    def debs_of(self, stage):
        staged = package_files.staged(stage)
        debs = {}
        for package in package_deb.PARTS:
            files = package_deb.package_files_of(staged, package, "1.2.3-1", "Some One <one@some.org>", 1_700_000_000)
            text = package_deb.control(package, "1.2.3-1", "Some One <one@some.org>", "2.28", "all" if package == "ddprun-dev" else "amd64", 7)
            path = self.folder / f"{package}.deb"
            package_deb.build([*files, *package_deb.control_files(package, files, text)], path, 1_700_000_000)
            debs[package] = path
        return debs

    @unittest.skipUnless(shutil.which("dpkg-deb"), "no dpkg-deb")
    def test_debian_packages_share_out_the_files_and_have_the_same_bytes_twice(self):
        (self.stage / "share/doc/ddprun/docs").mkdir(parents=True)
        (self.stage / "share/doc/ddprun/docs/rdzvd.md").write_text("text")
        (self.stage / "share/bash-completion/completions/rdzvd").write_text("complete rdzvd")
        names, first = {}, {}
        for package, path in self.debs_of(self.stage).items():
            first[package] = path.read_bytes()
            listed = subprocess.run(["dpkg-deb", "-c", path], capture_output=True, text=True, check=True).stdout
            names[package] = {line.split()[5].removeprefix("./") for line in listed.splitlines() if not line.endswith("/")}
        self.assertLessEqual({"usr/bin/ddprun", "usr/libexec/ddprun/train", "usr/share/lintian/overrides/ddprun", "usr/share/man/man1/ddprun.1.gz", "usr/share/doc/ddprun/docs/rdzvd.md"}, names["ddprun"])
        self.assertEqual(names["ddprun-rdzvd"], {
            "usr/bin/rdzvd", "usr/share/bash-completion/completions/rdzvd", "usr/lib/systemd/system/rdzvd.service", "etc/default/rdzvd",
            "usr/share/doc/ddprun-rdzvd/copyright", "usr/share/doc/ddprun-rdzvd/changelog.Debian.gz"})
        self.assertEqual({name for name in names["ddprun-dev"] if "doc" not in name}, {"usr/include/ddprun/ddprun_elastic.h", "usr/include/ddprun/ddprun_progress.h"})
        self.assertEqual(len(set.union(*names.values())), sum(map(len, names.values())))
        for package, path in self.debs_of(self.stage).items():
            self.assertTrue(path.read_bytes() == first[package], package)
        fields = subprocess.run(["dpkg-deb", "-f", self.folder / "ddprun-rdzvd.deb"], capture_output=True, text=True, check=True).stdout
        self.assertIn("Version: 1.2.3-1\n", fields)
        self.assertIn("Depends: libc6 (>= 2.28), adduser\n", fields)
        self.assertIn("Suggests: libssl3 | libssl3t64 | libssl1.1, libmunge2\n", fields)
        subprocess.run(["dpkg-deb", "-x", self.folder / "ddprun-rdzvd.deb", self.folder / "x"], check=True)
        self.assertIn("\nExecStart=/usr/bin/rdzvd $RDZVD_JOURNAL", (self.folder / "x/usr/lib/systemd/system/rdzvd.service").read_text())

    def test_the_unit_runs_as_the_user_that_its_package_makes_and_that_the_texts_give_the_secret_to(self):
        unit = (ROOT / "rendezvous/daemon/packaging/rdzvd.service.in").read_text()
        self.assertRegex(unit, r"(?m)^User=rdzvd$")
        self.assertRegex(package_deb.SCRIPTS["postinst"], r"(?m)^ *adduser .*--system --group .*rdzvd$")
        self.assertRegex(package_deb.SCRIPTS["postrm"], "deluser .*--system rdzvd")
        command = "head -c 24 /dev/urandom | base64 | install -D -o rdzvd -m 600 /dev/stdin /etc/ddprun/secret\n"
        self.assertIn(f"#   {command}", package_deb.DEFAULTS)
        self.assertIn(f"\n{command}", (ROOT / "docs/rdzvd.md").read_text())
        self.assertIn("--secret-file=/etc/ddprun/secret", package_deb.DEFAULTS)
        for name, script in package_deb.SCRIPTS.items():
            done = subprocess.run(["sh", "-n"], input=script, capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)

    def test_the_maintainer_is_that_of_the_environment_or_else_an_address_without_mail(self):
        with mock.patch.dict(os.environ, {"DEBFULLNAME": "Some One", "DEBEMAIL": "one@some.org"}):
            self.assertEqual(package_deb.maintainer(), "Some One <one@some.org>")
        with mock.patch.dict(os.environ, {"DEBFULLNAME": "", "DEBEMAIL": ""}):
            self.assertRegex(package_deb.maintainer(), r"^[a-z ]+ <[a-z]+@users\.noreply\.[a-z.]+>$")

    def test_the_files_of_a_wheel_are_compressed_with_the_highest_level(self):
        content = bytes(random.Random(1).choices(b"ab", k=50_000))
        sizes = {}
        for level in (6, 9):
            deflate = zlib.compressobj(level, zlib.DEFLATED, -15)
            sizes[level] = len(deflate.compress(content) + deflate.flush())
        self.assertLess(sizes[9], sizes[6])
        entry, = zipfile.ZipFile(io.BytesIO(package_wheel.zipped([package_files.File("one", content)], 1_000_000_000))).infolist()
        self.assertEqual(entry.compress_size, sizes[9])

    def test_the_python_package_has_the_syntax_of_the_oldest_python_that_its_wheel_admits(self):
        text = zipfile.ZipFile(io.BytesIO(wheel_of(self.stage))).read("ddprun-1.2.3.dist-info/METADATA").decode()
        self.assertIn("\nRequires-Python: >=3.8\n", text)
        for path in (ROOT / "python" / "ddprun").glob("*.py"):
            tree = ast.parse(path.read_text(), feature_version=(3, 8))
            # list[str] in annotations, which would be evaluated.
            if any(isinstance(node, (ast.FunctionDef, ast.AnnAssign)) for node in ast.walk(tree)):
                self.assertIn("\nfrom __future__ import annotations\n", path.read_text(), path.name)

    def test_the_oldest_glibc_is_the_same_for_the_packages_and_the_tests(self):
        script = (ROOT / "scripts" / "package").read_text()
        self.assertEqual(re.findall(r"(?m)^glibc=(\S+)", script), ["2.28"])
        self.assertEqual(program_checks.OLDEST, (2, 28))


if __name__ == "__main__":
    unittest.main()
