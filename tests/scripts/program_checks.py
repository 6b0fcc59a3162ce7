"""What holds for the programs of scripts/package on every architecture."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
OLDEST = (2, 28)
PARTS_OF_LIBC = re.compile(r"^(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|ld-linux-x86-64\.so\.2|ld-linux-aarch64\.so\.1)$")


class ProgramChecks:
    """Cases for a TestCase that has the paths of the programs as `programs`."""

    def test_the_programs_need_no_symbol_above_the_oldest_glibc_and_none_of_a_shared_cpp_library(self):
        for program in self.programs:
            text = subprocess.run(["objdump", "-T", program], check=True, capture_output=True, text=True).stdout
            versions = {tuple(map(int, version.split("."))) for version in re.findall(r"\bGLIBC_([0-9.]+)", text)}
            self.assertTrue(versions, program.name)
            self.assertLessEqual(max(versions), OLDEST, f"{program.name}: {[l for l in text.splitlines() if 'GLIBC_2.3' in l]}")
            self.assertNotRegex(text, r"GLIBCXX_|CXXABI_|GCC_\d|\*UND\*.* _Z", program.name)

    def test_the_programs_load_nothing_but_parts_of_libc(self):
        for program in self.programs:
            text = subprocess.run(["readelf", "-d", program], check=True, capture_output=True, text=True).stdout
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
            self.assertIn("libc.so.6", needed)
            self.assertEqual([name for name in needed if not PARTS_OF_LIBC.match(name)], [], program.name)
            self.assertNotRegex(text, "RPATH|RUNPATH", program.name)

    def test_the_programs_are_bound_at_their_start_and_protect_their_relocations(self):
        for program in self.programs:
            text = subprocess.run(["readelf", "-lWd", program], check=True, capture_output=True, text=True).stdout
            self.assertIn("GNU_RELRO", text, program.name)
            self.assertRegex(text, r"BIND_NOW|FLAGS_1.*NOW", program.name)

    def test_all_programs_but_ddprun_which_starts_faster_so_are_position_independent(self):
        types = {}
        for program in self.programs:
            text = subprocess.run(["readelf", "-hW", program], check=True, capture_output=True, text=True).stdout
            types[program.name] = re.search(r"(?m)^ *Type: +(\w+)", text).group(1)
        self.assertEqual(types, {"ddprun": "EXEC", "ddpctl": "DYN", "rdzvd": "DYN", "train": "DYN"})

    def test_no_program_holds_the_path_of_the_sources(self):
        for program in self.programs:
            self.assertNotIn(str(ROOT).encode(), program.read_bytes(), program.name)
