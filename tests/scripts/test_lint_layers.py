"""Tests of lint_layers.py: which folder may include which, and how long a file may be."""

import contextlib
import io
import pathlib
import tempfile
import unittest
from unittest import mock

import lint_layers

ROOT = pathlib.Path(__file__).resolve().parents[2]


def findings(path, *headers):
    text = "".join(f'#include {header if header[0] == "<" else chr(34) + header + chr(34)}\n' for header in headers)
    return [what for _, what in lint_layers.findings_in(pathlib.PurePosixPath(path), text)]


class Layers(unittest.TestCase):
    def test_a_folder_may_include_what_is_below_it(self):
        self.assertEqual(findings("launcher/main.cpp", "agent/agent.hpp", "rendezvous/a.hpp", "proto/error.hpp"), [])
        self.assertEqual(findings("agent/control/agent_loop.cpp", "rendezvous/membership/core.hpp", "base/result.hpp"), [])
        self.assertEqual(findings("rendezvous/store/core.cpp", "proto/c10d.hpp", "core.hpp"), [])

    def test_nothing_includes_upwards(self):
        self.assertEqual(len(findings("proto/error.cpp", "rendezvous/store/core.hpp")), 1)
        self.assertEqual(len(findings("rendezvous/store/core.cpp", "agent/agent.hpp")), 1)
        self.assertEqual(len(findings("agent/control/agent_loop.cpp", "launcher/plan/plan.hpp")), 1)

    def test_nor_do_the_rooms_of_a_folder(self):
        self.assertEqual(findings("agent/workers/a.cpp", "agent/streams/a.hpp", "agent/workers/b.hpp", "agent/config.hpp"), [])
        self.assertEqual(len(findings("agent/streams/a.cpp", "agent/workers/a.hpp")), 1)
        self.assertEqual(len(findings("agent/workers/a.cpp", "agent/control/a.hpp")), 1)
        self.assertEqual(len(findings("launcher/options/a.cpp", "launcher/plan/plan.hpp")), 1)
        self.assertEqual(len(findings("trainer/model/graph.cpp", "trainer/compute/ops.hpp")), 1)
        self.assertEqual(len(findings("machine/cgroups/a.cpp", "machine/processes/spawn.hpp")), 1)

    def test_a_folder_without_a_row_is_reported(self):
        self.assertEqual(len(findings("launcher/new/a.cpp", "agent/agent.hpp")), 1)
        self.assertEqual(len(findings("new/a.cpp")), 1)
        self.assertEqual(findings("tests/new/a.cpp", "agent/agent.hpp"), [])

    def test_the_texts_of_programs_are_for_those_that_name_them(self):
        self.assertEqual(len(findings("base/describe.cpp", "texts/words.hpp")), 1)
        self.assertEqual(len(findings("base/describe.cpp", "texts/cli/command_line.hpp")), 1)
        self.assertEqual(len(findings("texts/help.cpp", "texts/cli/command_line.hpp")), 1)
        self.assertEqual(findings("texts/cli/command_line.cpp", "texts/words.hpp", "base/result.hpp"), [])
        self.assertEqual(len(findings("proto/error.cpp", "texts/words.hpp")), 1)

    def test_of_the_warden_the_agent_knows_the_link_only(self):
        self.assertEqual(findings("agent/control/a.cpp", "warden/warden_link.hpp"), [])
        self.assertEqual(len(findings("agent/control/a.cpp", "warden/warden.hpp")), 1)

    def test_the_trainer_knows_the_store_client_and_nothing_of_agent_or_launcher(self):
        self.assertEqual(findings("trainer/run/main.cpp", "rendezvous/client/store_client.hpp", "trainer/error.hpp"), [])
        self.assertEqual(len(findings("trainer/run/main.cpp", "agent/agent.hpp")), 1)
        self.assertEqual(len(findings("trainer/run/main.cpp", "launcher/plan/plan.hpp")), 1)
        self.assertEqual(len(findings("trainer/run/main.cpp", "rendezvous/membership/core.hpp")), 1)
        self.assertEqual(len(findings("trainer/run/main.cpp", "rendezvous/client/agent_session.hpp")), 1)

    def test_no_folder_of_the_product_includes_tests_or_the_trainer(self):
        self.assertEqual(len(findings("agent/control/agent_loop.cpp", "tests/support/skip.hpp")), 1)
        self.assertEqual(len(findings("launcher/plan/plan.cpp", "trainer/error.hpp")), 1)

    def test_no_row_opens_the_wall_between_the_houses(self):
        rows = lint_layers.MAY_INCLUDE
        opened = {"trainer/run": [*rows["trainer/run"], "agent"], "launcher/plan": [*rows["launcher/plan"], "trainer"]}
        with mock.patch.dict(rows, opened):
            self.assertEqual(len(findings("trainer/run/main.cpp", "agent/agent.hpp")), 1)
            self.assertEqual(len(findings("launcher/plan/plan.cpp", "trainer/error.hpp")), 1)

    def test_tests_of_one_house_know_nothing_of_the_other(self):
        self.assertEqual(len(findings("tests/unit/trainer/run/a_test.cpp", "agent/agent.hpp")), 1)
        self.assertEqual(len(findings("tests/integration/launcher/a_test.cpp", "tests/integration/trainer/run/worker_group.hpp")), 1)
        self.assertEqual(findings("tests/both/a_test.cpp", "agent/agent.hpp", "tests/integration/trainer/run/worker_group.hpp"), [])

    def test_tests_and_benchmarks_may_include_everything_else(self):
        self.assertEqual(findings("tests/unit/a.cpp", "launcher/plan/plan.hpp", "trainer/error.hpp"), [])
        self.assertEqual(findings("tests/unit/trainer/a_test.cpp", "rendezvous/store/store_server.hpp", "trainer/error.hpp"), [])
        self.assertEqual(findings("bench/launch/a.cpp", "agent/spawn.hpp"), [])

    def test_a_path_that_climbs_is_refused(self):
        self.assertEqual(len(findings("agent/control/agent_loop.cpp", "../proto/error.hpp")), 1)


class ForeignHeaders(unittest.TestCase):
    def test_no_cuda_header_reaches_the_control_plane(self):
        for header in ("<cuda_runtime.h>", "<nccl.h>", "<cudnn.h>", "<nvml.h>", "<cublasLt.h>"):
            self.assertEqual(len(findings("agent/devices.cpp", header)), 1, header)
        self.assertEqual(findings("trainer/compute/kernels.cu", "<cuda_runtime.h>"), [])

    def test_no_asio_header_reaches_cuda_code(self):
        self.assertEqual(len(findings("trainer/compute/kernels.cu", "<boost/asio/awaitable.hpp>")), 1)

    def test_no_asio_in_base_machine_and_warden(self):
        for folder in ("base", "texts", "machine/cpus", "machine/processes", "warden"):
            self.assertEqual(len(findings(f"{folder}/a.cpp", "<boost/asio/post.hpp>")), 1, folder)
        self.assertEqual(findings("agent/control/a.cpp", "<boost/asio/post.hpp>"), [])

    def test_proto_includes_neither_asio_nor_sockets(self):
        self.assertEqual(len(findings("proto/frame.cpp", "<boost/asio/buffer.hpp>")), 1)
        self.assertEqual(len(findings("proto/frame.cpp", "<sys/socket.h>")), 1)

    def test_the_heaviest_headers_stay_out_of_headers(self):
        self.assertEqual(len(findings("agent/a.hpp", "<nlohmann/json.hpp>")), 1)
        self.assertEqual(findings("agent/a.cpp", "<nlohmann/json.hpp>"), [])

    def test_cli11_is_for_the_programs_with_an_ordinary_command_line(self):
        self.assertEqual(findings("trainer/run/cli/options.cpp", "texts/cli/command_line.hpp"), [])
        self.assertEqual(len(findings("launcher/options/options.cpp", "texts/cli/command_line.hpp")), 1)
        self.assertEqual(len(findings("texts/help.cpp", "<CLI/CLI.hpp>")), 1)


class Length(unittest.TestCase):
    def test_a_file_over_400_lines_is_reported(self):
        path = pathlib.PurePosixPath("agent/a.cpp")
        self.assertEqual(list(lint_layers.findings_in(path, "x\n" * 400)), [])
        self.assertEqual(len(list(lint_layers.findings_in(path, "x\n" * 401))), 1)


class WholeTree(unittest.TestCase):
    def test_a_finding_is_printed_with_file_and_line_and_makes_the_lint_fail(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "proto", "a.cpp")
            file.parent.mkdir()
            file.write_text('// what for\n#include "agent/agent.hpp"\n')
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                self.assertEqual(lint_layers.main(folder), 1)
            self.assertTrue(printed.getvalue().startswith("proto/a.cpp:2: "), printed.getvalue())

    def test_the_sources_keep_to_their_layers(self):
        self.assertEqual(lint_layers.main(ROOT), 0)


if __name__ == "__main__":
    unittest.main()
