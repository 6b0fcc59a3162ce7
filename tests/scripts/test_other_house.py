"""Tests of cmake/OtherHouse.cmake in a small project of two houses: a target that a build leaves out names the preset that has it."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROJECT = f"""cmake_minimum_required(VERSION 3.25)
project(houses LANGUAGES NONE)
if(DDPRUN_LAUNCHER)
  add_custom_target(ddprun COMMAND ${{CMAKE_COMMAND}} -E echo "ddprun is built")
endif()
include({ROOT}/cmake/OtherHouse.cmake)
"""
LISTS = {
    "launcher/CMakeLists.txt": "ddprun_library(launcher\n  SOURCES a.cpp)\nddprun_program(ddprun SOURCES main.cpp)\n",
    "trainer/run/CMakeLists.txt": "add_executable(train main.cpp)\nddprun_texts(train ddprun-train 1)\n",
    "tests/unit/trainer/CMakeLists.txt": "ddprun_test(trainer_run\n  SOURCES a.cpp)\n",
    "tests/both/CMakeLists.txt": "ddprun_test(trainer_stop SOURCES a.cpp)\n",
}


@unittest.skipIf(shutil.which("ninja") is None, "no ninja here")
class OtherHouse(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.project = pathlib.Path(folder.name)
        (self.project / "CMakeLists.txt").write_text(PROJECT)
        for name, text in LISTS.items():
            (self.project / name).parent.mkdir(parents=True, exist_ok=True)
            (self.project / name).write_text(text)

    def cmake(self, *arguments):
        return subprocess.run(["cmake", *arguments], cwd=self.project, capture_output=True, text=True, check=False, timeout=60)

    def build_of(self, launcher, train):
        done = self.cmake("-B", "build", "-G", "Ninja", f"-DDDPRUN_LAUNCHER={launcher}", f"-DDDPRUN_TRAIN={train}")
        self.assertEqual(done.returncode, 0, done.stderr)

    def refuses(self, target, message):
        done = self.cmake("--build", "build", "--target", target)
        self.assertNotEqual(done.returncode, 0, target)
        self.assertIn(f"\n{target} {message}\n", done.stdout)

    def test_a_target_of_the_trainer_names_the_presets_that_have_it(self):
        self.build_of("ON", "OFF")
        for target in ("train", "train_share", "test_trainer_run"):
            self.refuses(target, "belongs to the trainer's house: build it with the preset trainer or dev")
        self.assertIn("ddprun is built", self.cmake("--build", "build", "--target", "ddprun").stdout)

    def test_a_target_of_the_launcher_names_the_presets_that_have_it(self):
        self.build_of("OFF", "ON")
        for target in ("ddprun", "ddprun_launcher"):
            self.refuses(target, "belongs to the launcher's house: build it with the preset launcher or dev")

    def test_a_test_of_both_houses_names_the_preset_that_has_it(self):
        self.build_of("ON", "OFF")
        self.refuses("test_trainer_stop", "needs both houses: build it with the preset dev")

    def test_a_build_of_one_house_builds_none_of_these_targets_unasked(self):
        self.build_of("ON", "OFF")
        self.assertEqual(self.cmake("--build", "build").returncode, 0)


if __name__ == "__main__":
    unittest.main()
