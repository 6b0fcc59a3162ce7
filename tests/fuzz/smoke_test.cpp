// The launcher's entries of the fuzzers as a test (replay.hpp).
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "launcher/options/option_table.hpp"
#include "tests/fuzz/entries.hpp"
#include "tests/fuzz/replay.hpp"
#include "tests/support/tls.hpp"

using namespace ddprun::test;

namespace {

/// Words for the command line of which every spelling of every option is one.
std::vector<std::string> spellings_of_all_options() {
  std::vector<std::string> words;
  for (const auto& row : ddprun::launcher::option_table()) {
    for (const std::string& spelling : ddprun::launcher::spellings(row)) {
      const std::string end("\0train\0", 7);
      words.push_back(spelling + end);
      words.push_back(spelling + "=1" + end);
      for (const auto choice : ddprun::launcher::choices_of(row)) {
        words.push_back(spelling + std::string(1, '\0') + std::string(choice) + end);
      }
    }
    if (!row.environment.empty()) words.push_back(std::string(row.environment) + "=1");
  }
  return words;
}

}  // namespace

TEST_CASE("any bytes keep every promise of the store and its parser in both dialects") {
  CHECK(replay(fuzz_c10d, "c10d", 20000) > 0);
}

TEST_CASE("any bytes keep every promise of an encrypted connection") {
  tls();
  CHECK(replay(fuzz_tls, "tls", 500) > 0);
}

TEST_CASE("any bytes keep every promise of torch's timer file") {
  CHECK(replay(fuzz_timer_file, "timer_file", 20000) > 0);
}

TEST_CASE("any bytes that a worker prints end as lines and rows") {
  CHECK(replay(fuzz_stream_text, "stream_text", 20000) > 0);
}

TEST_CASE("any bytes keep every promise of control frames and hellos") {
  CHECK(replay(fuzz_frame, "frame", 20000) > 0);
}

TEST_CASE("any bytes keep every promise of control messages") {
  CHECK(replay(fuzz_membership_json, "membership_json", 20000) > 0);
}

TEST_CASE("any messages keep every promise of an agent's session") {
  CHECK(replay(fuzz_agent_session, "agent_session", 5000) > 0);
}

TEST_CASE("any messages keep every promise of the rendezvous service and its journal") {
  CHECK(replay(fuzz_service, "service", 5000) > 0);
}

TEST_CASE("any bytes keep every promise of what is read of an etcd") {
  CHECK(replay(fuzz_etcd_answer, "etcd_answer", 20000) > 0);
}

TEST_CASE("any bytes keep every promise of a journal") {
  CHECK(replay(fuzz_journal, "journal", 20000) > 0);
}

TEST_CASE("any records keep every promise of a service that starts with them") {
  CHECK(replay(fuzz_journal_records, "journal_records", 5000) > 0);
}

TEST_CASE("any text keeps every promise of --rdzv-conf and --rdzv-endpoint") {
  CHECK(replay(fuzz_rdzv_conf, "rdzv_conf", 20000) > 0);
}

TEST_CASE("any text is a list of hosts or refused in one line") {
  CHECK(replay(fuzz_hostlist, "hostlist", 20000) > 0);
}

TEST_CASE("any text is hosts of a file or of an option, or refused in one line") {
  CHECK(replay(fuzz_hostfile, "hostfile", 5000) > 0);
}

TEST_CASE("any bytes of a launcher or a node are taken apart the same in one piece and in many") {
  CHECK(replay(fuzz_node_messages, "node_messages", 5000) > 0);
}

TEST_CASE("any bytes keep every promise of progress pages and the output of debuggers") {
  CHECK(replay(fuzz_progress_page, "progress_page", 20000) > 0);
}

TEST_CASE("any bytes of a worker are a message or none") {
  CHECK(replay(fuzz_worker_message, "worker_message", 20000) > 0);
}

TEST_CASE("any bytes are a request to a job or refused in one line") {
  CHECK(replay(fuzz_job_request, "job_request", 20000) > 0);
}

TEST_CASE("any words keep every promise of the command line") {
  CHECK(replay(fuzz_command_line, "command_line", 5000, spellings_of_all_options()) > 0);
}
