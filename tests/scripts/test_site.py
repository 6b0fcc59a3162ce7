"""What the documentation site shows is real: the screens of docs/cookbook/ and the pages of docs/reference/ are what the programs
of this build print, and the examples of options are accepted."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DDPRUN_TEST_BUILD", "."))
BIN = pathlib.Path(os.environ.get("DDPRUN_TEST_BIN", "."))
sys.path.insert(0, str(ROOT / "scripts" / "lib"))

import screens  # noqa: E402

AGAIN = "run scripts/site --screens (DDPRUN_BIN names the folder of the programs)"
EXAMPLE = re.compile(r"^#### `(--[a-z-]+)`.*?\n```sh\n(.*?)\n```\n", re.DOTALL | re.MULTILINE)
# Their examples start nothing, or print a text; --dry-run beside them is an error or changes nothing.
START_NOTHING = {"--make-secret", "--completion", "--man", "--version", "--help"}


def make_certificate(folder):
    """Writes node.pem, node.key and ca.pem, all of one self-signed certificate. False: openssl is not installed."""
    if not shutil.which("openssl"):
        return False
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=node1", "-days", "2",
                    "-keyout", folder / "node.key", "-out", folder / "node.pem"], check=True, capture_output=True)
    shutil.copy(folder / "node.pem", folder / "ca.pem")
    return True


class Comparison(unittest.TestCase):
    def test_only_what_changes_from_run_to_run_is_left_out(self):
        old = "$ ddprun a.py\nddprun: rank 1 (pid 12) exited with code 3 after 35 ms\n[rank0] b\n[rank1] a\n"
        self.assertEqual(screens.comparable(old), screens.comparable(old.replace("pid 12", "pid 7").replace("35 ms", "1.2 s")))
        self.assertEqual(screens.comparable(old), screens.comparable("$ ddprun a.py\n[rank1] a\n[rank0] b\n" + old.splitlines()[1] + "\n"))
        self.assertNotEqual(screens.comparable(old), screens.comparable(old.replace("code 3", "code 4")))
        self.assertNotEqual(screens.comparable(old), screens.comparable(old.replace("[rank0] b\n", "")))

    def test_ports_clock_times_run_ids_and_interpreters_change(self):
        old = "$ x\n127.0.0.1:29400 port 4242 12:00:01.250 c4ad25d6-52b7-40e9-9b9f-973c5ec90705 /usr/bin/python3\n"
        new = "$ x\n127.0.0.1:40001 port 17 23:59:59.001 00000000-1111-2222-3333-444444444444 /opt/a/bin/python3.12\n"
        self.assertEqual(screens.comparable(old), screens.comparable(new))

    def test_outputs_belong_to_their_commands(self):
        self.assertEqual(screens.outputs_in("$ a\n1\n2\n$ b\n$ c\n3\n"), [["1", "2"], [], ["3"]])

    def test_a_screen_by_hand_is_told_from_the_others(self):
        block = "```console\n$ true\n```\n<!-- end of screen -->\n"
        found = screens.screens_in(f"text\n<!-- screen -->\n{block}\n<!-- screen, by hand -->\n{block}")
        self.assertEqual([screen.by_hand for screen in found], [False, True])
        self.assertEqual([screen.commands for screen in found], [["true"], ["true"]])

    def test_commands_share_a_shell_and_see_the_status_of_the_one_before(self):
        text = screens.run_commands(["name='a b'", "echo \"$name\"; (exit 7)", "echo $?", "pwd"], BIN)
        self.assertEqual(text, "$ name='a b'\n$ echo \"$name\"; (exit 7)\na b\n$ echo $?\n7\n$ pwd\n/tmp/job\n")


class Screens(unittest.TestCase):
    def test_every_block_with_a_prompt_is_a_screen(self):
        for document in (ROOT / "docs" / "cookbook").glob("*.md"):
            text = document.read_text(encoding="utf-8")
            self.assertEqual(text.count("```console"), len(screens.screens_in(text)), document)

    def test_the_screens_are_what_the_commands_print(self):
        count = 0
        for document in screens.documents():
            for screen in screens.screens_in(document.read_text(encoding="utf-8")):
                if screen.by_hand:
                    continue
                count += 1
                with self.subTest(document=document.name, commands=screen.commands):
                    printed = screens.run_commands(screen.commands, BIN)
                    self.assertEqual(screens.comparable(screen.text), screens.comparable(printed), AGAIN + "\n" + printed)
        self.assertGreater(count, 8)


class Reference(unittest.TestCase):
    def test_the_pages_are_those_that_the_programs_print(self):
        for program in screens.PROGRAMS:
            if not (BIN / program).exists():  # a build without train
                continue
            with self.subTest(program=program):
                self.assertEqual(screens.page_file(program).read_text(encoding="utf-8"), screens.page(program, BIN), AGAIN)

    def test_ddprun_accepts_the_example_of_every_option(self):
        page = screens.page("ddprun", BIN)
        examples = EXAMPLE.findall(page)
        self.assertEqual(len(examples), len(re.findall(r"^#### ", page, re.MULTILINE)))
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "project").mkdir()
            for script in (folder / "train.py", folder / "project" / "train.py"):
                script.write_text("raise SystemExit('a dry run starts nothing')\n", encoding="utf-8")
            (folder / "hosts.txt").write_text("a slots=8\nb slots=8\n", encoding="utf-8")
            secret = folder / "secret"
            secret.write_text("sixteen bytes, 16\n", encoding="utf-8")
            secret.chmod(0o600)
            has_certificates = make_certificate(folder)
            # NVML of a machine with 8 GPUs (tests/unit/machine/devices/stub_nvml.cpp).
            (folder / "libnvidia-ml.so.1").symlink_to(BUILD / "tests" / "libstub_nvml.so.1")
            environment = os.environ | {"LD_LIBRARY_PATH": str(folder), "STUB_NVML_GPUS": "8", "HOME": str(folder)}
            for option, command in examples:
                if "-tls-ca=" in command and not has_certificates:
                    continue
                words = shlex.split(command.split(" | ")[0].split(" > ")[0])
                self.assertEqual(words[0], "ddprun", command)
                if option not in START_NOTHING:
                    words.insert(1, "--dry-run")
                if option == "--make-secret":
                    secret.unlink()
                with self.subTest(command=command):
                    done = subprocess.run([BIN / words[0], *words[1:]], cwd=folder, env=environment, capture_output=True, text=True,
                                          stdin=subprocess.DEVNULL, check=False, timeout=60)
                    self.assertEqual(done.returncode, 0, done.stderr)
                if option == "--make-secret":
                    self.assertEqual(secret.stat().st_mode & 0o777, 0o600)


if __name__ == "__main__":
    unittest.main()
