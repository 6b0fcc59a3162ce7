"""What cmake --install leaves: programs that run from wherever the folder is moved to, under any LD_LIBRARY_PATH."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DDPRUN_TEST_BUILD", "."))
# Libraries that a user's environment (conda's, for one) has other versions of.
POISONED = ["libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1", "libfmt.so.9", "libspdlog.so.1.10", "libdnnl.so.2",
            "libz.so.1", "libboost_system.so.1.81.0", "libssl.so.3"]
PARTS_OF_LIBC = re.compile(r"^(libc|libm|libdl|librt|libpthread|ld-linux-[\w-]+)\.so\.\d+$")


class Installed(unittest.TestCase):
    """One installation for all cases, moved once."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.first = pathlib.Path(cls.folder.name) / "first"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.first], check=True, capture_output=True)
        cls.prefix = pathlib.Path(cls.folder.name) / "moved to here"
        shutil.move(cls.first, cls.prefix)
        poison = pathlib.Path(cls.folder.name) / "poison"
        poison.mkdir()
        for name in POISONED:
            (poison / name).write_bytes(b"this is no library")
        cls.environment = os.environ | {"LD_LIBRARY_PATH": str(poison)}

    def run_program(self, *command, **more):
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60,
                              stdin=subprocess.DEVNULL, env=self.environment, cwd=self.folder.name, **more)

    def programs(self):
        return [*(self.prefix / "bin" / name for name in ("ddprun", "ddpctl", "rdzvd")), self.prefix / "libexec" / "ddprun" / "train"]

    def needed(self, program):
        text = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
        return re.findall(r"\(NEEDED\).*\[(.*)\]", text)

    def test_ddprun_has_few_thread_local_bytes_because_each_thread_writes_them_all_at_its_start(self):
        text = subprocess.run(["readelf", "-lW", self.prefix / "bin" / "ddprun"], check=True, capture_output=True, text=True).stdout
        sizes = [int(line.split()[5], 16) for line in text.splitlines() if line.split()[:1] == ["TLS"]]
        self.assertEqual(len(sizes), 1)
        self.assertLess(sizes[0], 1024)

    def test_ddprun_says_its_version_from_the_moved_folder_under_poisoned_libraries(self):
        done = self.run_program(self.prefix / "bin" / "ddprun", "--version")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ddprun", done.stdout)

    def test_ddprun_finds_train_in_the_moved_folder(self):
        train = self.prefix / "libexec" / "ddprun" / "train"
        self.assertTrue(os.access(train, os.X_OK))
        done = self.run_program(self.prefix / "bin" / "ddprun", "--dry-run", "train")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(str(train), done.stdout)

    def test_train_runs_under_poisoned_libraries(self):
        done = self.run_program(self.prefix / "libexec" / "ddprun" / "train", "--help")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_ddprun_shares_nothing_but_libc(self):
        shared = self.needed(self.prefix / "bin" / "ddprun")
        self.assertEqual([name for name in shared if not PARTS_OF_LIBC.match(name)], [])

    def test_manual_pages_and_completions_of_all_programs_are_installed(self):
        pages = ("man1/ddprun.1", "man1/ddprun-train.1", "man1/ddpctl.1", "man8/rdzvd.8")
        for name in [*(f"share/man/{page}" for page in pages), *(
                f"share/{place}" for page, program in (("ddprun", "ddprun"), ("ddprun-train", "train"), ("ddpctl", "ddpctl"), ("rdzvd", "rdzvd"))
                for place in (f"bash-completion/completions/{page}", f"zsh/site-functions/_{page}",
                              f"fish/vendor_completions.d/{page}.fish", f"ddprun/{program}.tcsh"))]:
            self.assertTrue((self.prefix / name).is_file(), name)
            self.assertGreater((self.prefix / name).stat().st_size, 200, name)

    def test_licenses_documents_and_the_schema_of_the_report_are_installed(self):
        for name in ("LICENSE", "THIRD_PARTY_NOTICES", "README.md", "docs/progress.md", "docs/containment.md"):
            self.assertTrue((self.prefix / "share" / "doc" / "ddprun" / name).is_file(), name)
        json.loads((self.prefix / "share" / "ddprun" / "report.schema.json").read_text())

    def test_the_manual_pages_name_only_documents_that_are_installed(self):
        for page in (self.prefix / "share" / "man").rglob("*.[18]"):
            for name in re.findall(r"docs/[a-z-]+\.md", page.read_text().replace("\\-", "-")):
                self.assertTrue((self.prefix / "share" / "doc" / "ddprun" / name).is_file(), f"{page.name}: {name}")

    def test_the_unit_file_starts_the_program_of_its_prefix(self):
        unit = (self.prefix / "lib" / "systemd" / "system" / "rdzvd.service").read_text()
        self.assertIn(f"\nExecStart={self.first}/bin/rdzvd $RDZVD_JOURNAL $RDZVD_OPTIONS\n", unit)
        self.assertIn("\nEnvironment=RDZVD_JOURNAL=--state-dir=%S/rdzvd\n", unit)

    def test_the_unit_file_of_a_prefix_with_spaces_is_quoted_and_destdir_is_no_part_of_it(self):
        staging = pathlib.Path(self.folder.name) / "staging"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", "/opt/100% dd"], check=True, capture_output=True,
                       env=os.environ | {"DESTDIR": str(staging)})
        unit = (staging / "opt/100% dd/lib/systemd/system/rdzvd.service").read_text()
        self.assertIn('\nExecStart="/opt/100%% dd/bin/rdzvd" $RDZVD_JOURNAL $RDZVD_OPTIONS\n', unit)

    def test_no_program_holds_the_path_of_the_sources(self):
        for program in self.programs():
            self.assertNotIn(str(ROOT).encode() + b"/", program.read_bytes(), program.name)

    def test_every_program_is_bound_at_its_start_and_protects_its_relocations(self):
        for program in self.programs():
            text = subprocess.run(["readelf", "-lWd", program], check=True, capture_output=True, text=True).stdout
            self.assertIn("GNU_RELRO", text, program.name)
            self.assertRegex(text, r"BIND_NOW|FLAGS_1.*NOW", program.name)

    def test_nothing_installed_names_the_build_folder_as_a_place_to_load_from(self):
        for program in self.programs():
            text = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
            self.assertNotIn(str(BUILD), text)


if __name__ == "__main__":
    unittest.main()
