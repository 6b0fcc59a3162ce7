"""scripts/release in a repository of its own, with a pretended scripts/package: what it refuses, and what it leaves."""

import copy
import datetime
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from spdx_rules import violations

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-01-31\n\n### Added\n\n- Something.\n  More of it.\n\n## 0.1.0 - 2025-12-01\n\n- The first.\n"
# It counts its runs. With a file `random` each has other bytes.
PACKAGE = """#!/bin/sh
set -e
own=build/package
debian_arch=amd64
arch=${1#--arch=}
[ $arch = x86_64 ] || { own=build/package/$arch; debian_arch=arm64; }
compiled="$own/build $own/stage $own/onednn/build $own/onednn/installed"
ls -d $compiled >>../kept 2>/dev/null || true
[ $arch = aarch64 ] || ls -d build/package/zig-cache >>../kept 2>/dev/null || true
mkdir -p $own/dist build/package/venv build/package/zig-cache $own/headers $compiled
echo "$@ $SOURCE_DATE_EPOCH" >>../runs
[ ! -e ../fails ] || { echo "package: no compiler" >&2; exit 1; }
printf 'libfmt-dev 9.1.0+ds1-2 libfmt9 9.1.0+ds1-2 libboost1.81-dev 1.81.0-5+deb12u1' >$own/headers/versions
printf 'ziglang==0.17.1 for glibc 2.28' >build/package/venv/packages
printf '3.7.2+ds-2 0.17.1 2.28 CONVOLUTION;REORDER' >$own/onednn/installed/made-of
cat ../more-headers >>$own/headers/versions 2>/dev/null || true
version=$(sed -n 's/^project(ddprun VERSION \\([0-9.]*\\).*/\\1/p' CMakeLists.txt)
for name in ddprun-$version-py3-none-manylinux_2_28_$arch.whl ddprun_torchrun-$version-py3-none-any.whl ddprun-$version-linux-$arch.tar.gz \\
  ddprun_$version-1_$debian_arch.deb ddprun-rdzvd_$version-1_$debian_arch.deb ddprun-dev_$version-1_all.deb; do
  echo "$name" >$own/dist/$name
  [ ! -e ../random ] || wc -l ../runs >>$own/dist/$name
done
[ ! -e ../no-deb ] || rm $own/dist/*.deb
[ ! -e ../other-header ] || echo $arch >>$own/dist/ddprun-dev_$version-1_all.deb
"""
TESTS = "import os, pathlib, unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertFalse(pathlib.Path('../../../fails-tests').exists())\n"


@unittest.skipUnless(shutil.which("git"), "no git")
class Release(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.checkout = self.folder / "a checkout"
        shutil.copytree(ROOT / "scripts", self.checkout / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "THIRD_PARTY_NOTICES", self.checkout)
        self.write("scripts/package", PACKAGE)
        self.write("CMakeLists.txt", "project(ddprun VERSION 0.2.0 LANGUAGES CXX)\n")
        self.write("CHANGELOG.md", CHANGELOG)
        self.write(".gitignore", "/build/\n__pycache__/\n")
        for name in ("test_package.py", "test_package_aarch64.py", "test_package_files.py"):
            self.write(f"tests/scripts/{name}", TESTS)
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "SOURCE_DATE"))} | {
            "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b.org", "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@b.org", "GIT_COMMITTER_DATE": "2026-02-01T00:00:00Z"}
        self.git("init", "-q")
        self.commit()

    def write(self, name, text):
        path = self.checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if text.startswith("#!"):
            path.chmod(0o755)

    def git(self, *words):
        return subprocess.run(["git", *words], cwd=self.checkout, env=self.environment, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "a commit")

    def release(self, *words):
        if not any(word.startswith("--arch") for word in words):
            words = (*words, "--arch=all")
        return subprocess.run([self.checkout / "scripts" / "release", *words], capture_output=True, text=True, check=False, timeout=60,
                              stdin=subprocess.DEVNULL, env=self.environment)

    def runs(self):
        path = self.folder / "runs"
        return path.read_text().splitlines() if path.exists() else []

    def refused(self, *words):
        """The error of a release that builds nothing and makes no tag."""
        before = self.git("tag")
        done = self.release(*words)
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(self.runs(), [])
        self.assertEqual(self.git("tag"), before)
        return done.stderr

    def out(self):
        return self.checkout / "build" / "release-0.2.0"

    def test_a_release_has_all_packages_their_sums_and_an_sbom_and_tags_the_commit(self):
        done = self.release("0.2.0")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = sorted(path.name for path in self.out().iterdir())
        self.assertEqual(len(names), 12, names)
        sums = dict(reversed(line.split("  ")) for line in (self.out() / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(sorted(sums), [name for name in names if name != "SHA256SUMS"])
        for name, digest in sums.items():
            self.assertEqual(hashlib.sha256((self.out() / name).read_bytes()).hexdigest(), digest, name)
        self.assertEqual(self.git("rev-parse", "v0.2.0^{commit}"), self.git("rev-parse", "HEAD"))
        self.assertIn("git push origin v0.2.0\n", done.stderr)
        self.assertEqual(self.runs(), [f"--arch={arch} wheel tarball deb 1769904000" for arch in ("x86_64", "aarch64")])  # the commit's time

    def test_a_release_is_for_x86_64_unless_it_is_told_otherwise(self):
        done = subprocess.run([self.checkout / "scripts" / "release", "0.2.0"], capture_output=True, text=True, check=False, timeout=60,
                              stdin=subprocess.DEVNULL, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.runs(), ["--arch=x86_64 wheel tarball deb 1769904000"])

    def test_a_release_of_one_architecture_has_its_packages_alone(self):
        self.write("tests/scripts/test_package.py", TESTS.replace("assertFalse", "assertTrue"))  # its test fails
        self.commit()
        done = self.release("0.2.0", "--arch=aarch64", "--verify")
        self.assertEqual(done.returncode, 0, done.stderr)
        names = sorted(path.name for path in self.out().iterdir())
        self.assertEqual(len(names), 8, names)
        self.assertEqual([name for name in names if "x86_64" in name or "amd64" in name], [])
        self.assertEqual(len(self.runs()), 2)
        self.assertEqual((self.folder / "kept").read_text(), "")

    def test_a_release_without_a_maintainer_who_gets_mail_tells_so(self):
        words = "have no address of a maintainer"
        self.environment.pop("DEBEMAIL", None)
        self.assertIn(words, self.release("0.2.0", "--skip-tests").stderr)
        self.environment["DEBEMAIL"] = "one@some.org"
        self.assertNotIn(words, self.release("0.2.0", "--skip-tests").stderr)

    def test_a_dry_run_makes_no_tag_and_tells_what_is_not_ready(self):
        self.write("CHANGELOG.md", CHANGELOG.replace("## 0.2.0 - 2026-01-31\n", ""))
        done = self.release("0.2.0", "--dry-run", "--skip-tests")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("not ready: 1 files differ from the commit (CHANGELOG.md)", done.stderr)
        self.assertIn("not ready: CHANGELOG.md has no section '## 0.2.0 - ", done.stderr)
        self.assertTrue((self.out() / "SHA256SUMS").exists())
        self.assertEqual(self.git("tag"), "")

    def test_the_tag_of_this_commit_may_exist_and_that_of_another_one_may_not(self):
        self.git("tag", "v0.2.0")
        self.assertEqual(self.release("0.2.0", "--skip-tests").returncode, 0)
        (self.folder / "runs").unlink()
        self.write("new", "file")
        self.commit()
        self.assertIn("the tag v0.2.0 is at another commit", self.refused("0.2.0"))

    def test_changed_and_new_files_are_refused_with_their_names(self):
        self.write("new file", "")
        self.write("CMakeLists.txt", "project(ddprun VERSION 0.2.0)\n")
        self.assertRegex(self.refused("0.2.0"), r'2 files differ from the commit \(CMakeLists.txt "new file"\): commit or stash them')

    def test_another_version_than_that_of_the_sources_is_refused(self):
        self.assertIn("CMakeLists.txt has version 0.2.0, not 0.3.0: change project(", self.refused("0.3.0"))

    def test_the_changelog_has_to_have_the_version_with_its_date_and_nothing_newer(self):
        future = datetime.date.today() + datetime.timedelta(days=3)
        for old, new, reason in (
                ("## 0.2.0 - 2026-01-31", "## 0.2.0", "has no date: write '## 0.2.0 - 20"),
                ("2026-01-31", "2026-02-31", "has 2026-02-31 as its date"),
                ("2026-01-31", str(future), f"has a date in the future, {future}"),
                ("- Something.\n  More of it.\n", "", "the section 0.2.0 of CHANGELOG.md is empty"),
                ("## Unreleased\n", "## Unreleased\n\n- New.\n", "has entries under '## Unreleased'"),
                ("## Unreleased\n", "## 0.3.0 - 2026-01-31\n", "the section 0.3.0 of CHANGELOG.md is above that of 0.2.0"),
                ("0.2.0", "0.2.1", "has no section '## 0.2.0 - ")):
            self.write("CHANGELOG.md", CHANGELOG.replace(old, new))
            self.commit()
            self.assertIn(reason, self.refused("0.2.0"))

    def test_a_sentence_that_the_release_makes_false_is_refused_with_the_names_of_its_files(self):
        self.write("README.md", "Install it. There is no\nrelease yet.\n")
        self.write("docs/install.md", "# Installing\n\nThere is no release yet: nothing is on PyPI.\n")
        self.write("docs/index.md", "All is released.\n")
        self.commit()
        self.assertIn("README.md and docs/install.md have the sentence 'There is no release yet': ", self.refused("0.2.0"))
        (self.checkout / "docs/install.md").unlink()
        self.commit()
        self.assertIn("README.md has the sentence 'There is no release yet': write how to install", self.refused("0.2.0"))
        self.write("README.md", "Install it.\n")
        self.commit()
        self.assertEqual(self.release("0.2.0", "--skip-tests").returncode, 0)

    def test_tests_that_fail_keep_a_release_from_being_made_unless_they_are_skipped(self):
        (self.folder / "fails-tests").touch()
        self.assertIn("the tests of the packages failed", self.refused("0.2.0"))
        done = self.release("0.2.0", "--skip-tests")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("without the tests of the packages", done.stderr)

    def test_a_verified_release_is_built_twice_and_refused_where_the_bytes_differ(self):
        done = self.release("0.2.0", "--verify", "--skip-tests", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.runs()), 4)
        self.assertEqual((self.folder / "kept").read_text(), "")
        (self.folder / "random").touch()
        done = self.release("0.2.0", "--verify", "--skip-tests")
        self.assertEqual(done.returncode, 1)
        self.assertIn("two builds of one commit differ: Files ", done.stderr)
        self.assertEqual(self.git("tag"), "")

    def test_packages_that_fail_or_are_missing_end_the_release(self):
        for name, reason in (("fails", "scripts/package failed"), ("no-deb", "made no ddprun_0.2.0-1_amd64.deb in build/package/dist"),
                             ("other-header", "ddprun-dev_0.2.0-1_all.deb differs between the architectures")):
            (self.folder / name).touch()
            done = self.release("0.2.0", "--skip-tests")
            (self.folder / name).unlink()
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(reason, done.stderr)
            self.assertEqual(self.git("tag"), "")

    def test_packages_of_an_older_version_do_not_get_into_the_release(self):
        self.write("build/package/dist/ddprun-0.1.0-linux-x86_64.tar.gz", "old")
        self.assertEqual(self.release("0.2.0", "--skip-tests").returncode, 0)
        self.assertEqual([path.name for path in self.out().iterdir() if "0.1.0" in path.name], [])

    def test_a_folder_without_git_is_refused(self):
        shutil.rmtree(self.checkout / ".git")
        done = self.release("0.2.0")
        self.assertEqual((done.returncode, done.stderr), (1, "release: this folder is no git checkout: a release is made of a commit\n"))

    def test_a_wrong_command_line_is_answered_with_the_usage(self):
        for words in ((), ("v0.2.0",), ("0.2",), ("0.2.0", "0.3.0"), ("0.2.0", "--verfy")):
            done = self.release(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("usage: scripts/release VERSION", done.stderr)

    # --- The SBOM ---

    def sbom(self):
        done = self.release("0.2.0", "--skip-tests", "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((self.out() / "ddprun-0.2.0.spdx.json").read_text())

    def test_the_sbom_obeys_the_rules_of_spdx(self):
        self.assertEqual(violations(self.sbom()), [])

    def test_the_sbom_names_what_is_linked_in_with_licence_version_and_origin(self):
        parts = {package["name"]: package for package in self.sbom()["packages"]}
        self.assertEqual(sorted(parts), ["Boost", "compiler_rt", "ddprun", "fmt", "glibc", "libc++, libc++abi, libunwind", "oneDNN"])
        self.assertEqual([(parts["fmt"][key]) for key in ("versionInfo", "licenseDeclared")], ["9.1.0+ds1-2", "MIT"])
        self.assertEqual(parts["fmt"]["externalRefs"][0]["referenceLocator"], "pkg:deb/debian/libfmt-dev@9.1.0%2Bds1-2")
        self.assertEqual(parts["libc++, libc++abi, libunwind"]["externalRefs"][0]["referenceLocator"], "pkg:pypi/ziglang@0.17.1")
        self.assertEqual(parts["oneDNN"]["externalRefs"][0]["referenceLocator"], "pkg:deb/debian/onednn@3.7.2%2Bds-2?arch=source")
        self.assertEqual(parts["Boost"]["licenseConcluded"], "BSL-1.0")
        self.assertIn(self.git("rev-parse", "HEAD"), parts["ddprun"]["sourceInfo"])

    def test_the_sbom_has_the_sums_of_all_files(self):
        files = {entry["fileName"]: entry for entry in self.sbom()["files"]}
        self.assertEqual(len(files), 10)
        for name, entry in files.items():
            content = (self.out() / name).read_bytes()
            self.assertEqual({sum_["algorithm"]: sum_["checksumValue"] for sum_ in entry["checksums"]},
                             {"SHA1": hashlib.sha1(content).hexdigest(), "SHA256": hashlib.sha256(content).hexdigest()})

    def test_the_sbom_has_the_same_bytes_twice(self):
        first = self.sbom()
        self.assertEqual(self.sbom(), first)
        self.assertEqual(first["creationInfo"]["created"], "2026-02-01T00:00:00Z")

    def test_a_package_with_an_unknown_licence_ends_the_release(self):
        (self.folder / "more-headers").write_text(" libunknown-dev 1.0")
        done = self.release("0.2.0", "--skip-tests")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the table of THIRD_PARTY_NOTICES has no row for libunknown-dev: add its project and licence", done.stderr)

    def test_rules_that_are_broken_are_found(self):
        sbom = self.sbom()
        for change, words in ((lambda sbom: sbom.pop("documentNamespace"), "documentNamespace"),
                              (lambda sbom: sbom["packages"][1].pop("downloadLocation"), "downloadLocation"),
                              (lambda sbom: sbom["packages"][1].update(SPDXID="Package fmt"), "Package fmt"),
                              (lambda sbom: sbom["files"][0]["checksums"].pop(0), "SHA1"),
                              (lambda sbom: sbom["files"][0]["checksums"][0].update(checksumValue="12"), "SHA1"),
                              (lambda sbom: sbom["creationInfo"].update(created="yesterday"), "yesterday"),
                              (lambda sbom: sbom["relationships"].pop(0), "DESCRIBES"),
                              (lambda sbom: sbom["relationships"][1].update(relatedSpdxElement="SPDXRef-nothing"), "SPDXRef-nothing"),
                              (lambda sbom: sbom["packages"][1].update(licenseConcluded="BSD"), "BSD")):
            broken = copy.deepcopy(sbom)
            change(broken)
            found = violations(broken)
            self.assertTrue(any(words in line for line in found), (words, found))


class Notices(unittest.TestCase):
    def test_every_licence_of_the_table_has_its_text_below(self):
        head, _, texts = (ROOT / "THIRD_PARTY_NOTICES").read_text(encoding="utf-8").partition("\n----")
        rows = [re.split(" {2,}", line.strip()) for line in head.splitlines() if line.startswith("    ")]
        self.assertGreater(len(rows), 8)
        titles = {"MIT": "MIT License", "BSD-3-Clause": "Neither the name of the copyright holder", "BSL-1.0": "Boost Software License - Version 1.0",
                  "ISC": "ISC License", "BSD-2-Clause": "BSD 2-Clause License", "Apache-2.0": "Apache License 2.0 (LICENSE)", "IJG": "IJG License",
                  "libpng-2.0": "PNG Reference Library License version 2", "Zlib": "zlib License", "X11-distribute-modifications-variant": "X11 License Distribution Modification Variant",
                  "Apache-2.0 WITH LLVM-exception": "Apache License 2.0 with LLVM Exceptions",
                  "GPL-3.0-or-later WITH GCC-exception-3.1": "GCC Runtime Library Exception, version 3.1",
                  "LGPL-2.1-or-later WITH GCC-exception-2.0-note": "GNU Lesser General Public License, version 2.1 or later"}
        for name, license_, _, _ in rows:
            for part in license_.split(" AND "):
                self.assertIn(titles[part], texts, name)
            self.assertIn(re.split("[ ,]", name)[0], texts)


class Workflow(unittest.TestCase):
    def test_the_workflow_makes_the_release_of_the_pushed_tag_by_the_script(self):
        text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
        self.assertIn('scripts/release "${GITHUB_REF_NAME#v}" --arch=all --verify', text)
        for name in ("DEBFULLNAME", "DEBEMAIL"):
            self.assertIn(f"{name}: ${{{{ vars.{name} }}}}\n", text)
        self.assertRegex(text, r'tags: \["v\[0-9\]\+\.\[0-9\]\+\.\[0-9\]\+"\]')

    def test_a_workflow_runs_all_tests_of_the_packages_every_week_and_by_hand(self):
        text = (ROOT / ".github" / "workflows" / "packages.yml").read_text(encoding="utf-8")
        self.assertIn("\n  schedule:\n", text)
        self.assertIn("\n  workflow_dispatch:\n", text)
        modules = " ".join(re.findall(r"modules: ([a-z0-9_ ]+),", text)).split()
        for name in modules:
            self.assertTrue((ROOT / "tests" / "scripts" / f"{name}.py").is_file(), name)
        listed = (ROOT / "tests" / "scripts" / "CMakeLists.txt").read_text(encoding="utf-8")
        self.assertLessEqual(set(re.findall(r"ddprun_python_tests\((\w+) .*LOCK package\)", listed)), set(modules))


if __name__ == "__main__":
    unittest.main()
