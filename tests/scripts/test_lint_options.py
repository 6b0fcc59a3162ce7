"""Tests of lint_options.py: options that would do nothing are found, and this project has none."""

import pathlib
import tempfile
import unittest

import lint_options

ROOT = pathlib.Path(__file__).resolve().parents[2]

ROWS = """
inline constexpr std::array kRows = {
    OptionRow{
        .name = "role",
        .help = "ROLE_NAME",
    },
    OptionRow{
        .name = "legacy",
        .no_effect = "it is too old",
    },
};
"""
VALUES = """
struct LaunchOptions {
  std::string role = "default";  ///< of all
  std::optional<std::chrono::milliseconds> grow_delay;
};
"""


def findings(rows=ROWS, values=VALUES, parser='options.role = parsed.text("role");',
             planner="plan.role = options.role; plan.wait(options.grow_delay);"):
    with tempfile.TemporaryDirectory() as folder:
        options = pathlib.Path(folder) / "launcher" / "options"
        plan = pathlib.Path(folder) / "launcher" / "plan"
        options.mkdir(parents=True)
        plan.mkdir()
        (options / "option_rows_all.hpp").write_text(rows)
        (options / "options.hpp").write_text(values)
        (options / "options.cpp").write_text(parser)
        (plan / "plan.cpp").write_text(planner)
        return lint_options.findings(folder)


class Options(unittest.TestCase):
    def test_a_row_that_is_read_and_one_that_says_it_has_no_effect_are_fine(self):
        self.assertEqual(findings(), [])

    def test_a_row_that_no_code_reads_is_found_with_its_line(self):
        found = findings(parser="options.role = {};")
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith("launcher/options/option_rows_all.hpp:3: no code reads --role; "), found)

    def test_a_value_that_no_planner_uses_is_found_with_its_line(self):
        found = findings(planner="plan.role = options.role;")
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith("launcher/options/options.hpp:4: nothing uses LaunchOptions::grow_delay"), found)

    def test_a_member_of_a_group_is_used_by_the_groups_name_or_a_reference_to_it(self):
        values = "\nstruct LogOptions {\n  int mode = 0;\n};\n\nstruct LaunchOptions {\n  LogOptions logs;\n};\n"
        for planner, used in [("plan.mode = options.logs.mode;", True), ("const auto& given = options.logs; f(given.mode, 1);", True),
                              ("void f(const LogOptions& of_user) { g(of_user.mode); } h(options.logs);", True),
                              ("plan.mode = other.mode; f(options.logs);", False)]:
            with self.subTest(planner):
                found = findings(rows="", values=values, parser="", planner=planner)
                self.assertEqual(len(found), 0 if used else 1, found)

    def test_a_tree_without_the_struct_is_no_silent_success(self):
        self.assertEqual(len(findings(values="struct Others {\n};\n")), 1)

    def test_every_option_of_this_project_does_something(self):
        self.assertEqual(lint_options.findings(ROOT), [])

    def test_the_rows_and_values_of_this_project_are_seen(self):
        options = ROOT / lint_options.OPTIONS
        rows = sum(len(lint_options.ROW.findall(path.read_text())) for path in options.glob("option_rows_*.hpp"))
        self.assertEqual(rows, sum(path.read_text().count("OptionRow{\n") for path in options.glob("option_rows_*.hpp")))
        self.assertGreater(rows, 70)
        structs = lint_options.VALUES.findall(lint_options.code_only((options / "options.hpp").read_text()))
        self.assertGreater(len(structs), 10)
        for name, values in structs:
            self.assertEqual(len(lint_options.MEMBER.findall(values)), values.count(";"), name)


if __name__ == "__main__":
    unittest.main()
