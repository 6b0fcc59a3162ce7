// What lines, error files and ends say of a worker.
#include "agent/evidence/evidence.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <random>

#include "agent/evidence/disk_space.hpp"
#include "agent/evidence/error_file.hpp"
#include "agent/evidence/line_signs.hpp"
#include "machine/cgroups/memory_kills.hpp"
#include "tests/support/temp_dir.hpp"

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::agent;
using proto::EvidenceKind;

namespace {

/// A stderr and a stdout by the clock.
struct Streams {
  LineSigns signs;
  LineSigns::Clock::time_point now{0s};

  Streams& lines(const std::vector<std::string>& texts, std::chrono::milliseconds each = 10ms) {
    for (const std::string& text : texts) {
      now += each;
      signs.line(text, [this] { return now; });
    }
    return *this;
  }
  Streams& quiet(std::chrono::milliseconds time) {
    now += time;
    return *this;
  }
  Streams& printed() {
    signs.other_output([this] { return now; });
    return *this;
  }
};

/// What stays after these lines; each comes 10 ms after the one before.
LineSigns after(const std::vector<std::string>& lines) { return Streams().lines(lines).signs; }

const std::vector<std::string> kTraceback{
    "Traceback (most recent call last):", "  File \"t.py\", line 3, in <module>",
    "ValueError: bad lr"};

WorkerObservation ended(ExitStatus exit, bool stopped_by_us = false) {
  WorkerObservation seen;
  seen.exit = exit;
  seen.ended_at = 5s;
  seen.stopped_by_us = stopped_by_us;
  seen.stop_signal = SIGTERM;
  return seen;
}

}  // namespace

TEST_CASE("a traceback begins when its first line comes and says what went wrong at its end") {
  const LineSigns signs =
      after({"step 1", "Traceback (most recent call last):", "  File \"t.py\", line 3, in <module>",
             "ValueError: bad lr", "second line of it"});
  CHECK(signs.first_at() == LineSigns::Clock::time_point(20ms));
  CHECK(signs.message() == "ValueError: bad lr");
}

TEST_CASE("of a chain of exceptions the last one counts from the first one's time on") {
  const LineSigns signs = after(
      {"Traceback (most recent call last):", "  File \"a.py\", line 1", "KeyError: 'cache'", "",
       "During handling of the above exception, another exception "
       "occurred:",
       "", "Traceback (most recent call last):", "FileNotFoundError: /data/missing.bin"});
  CHECK(signs.first_at() == LineSigns::Clock::time_point(10ms));
  CHECK(signs.message() == "FileNotFoundError: /data/missing.bin");
}

TEST_CASE("the line that ends a traceback says what went wrong whatever it is called") {
  for (const std::string last :
       {"_queue.Empty", "KeyboardInterrupt", "Stop: no more", "MyFault: x"})
    CHECK(after({"Traceback (most recent call last):", "  File \"a.py\"", last}).message() == last);
}

TEST_CASE("exception groups are read through their drawing") {
  const LineSigns signs =
      after({"  + Exception Group Traceback (most recent call last):",
             "  |   File \"tg.py\", line 12, in <module>", "  |     asyncio.run(m())",
             "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
             "  +-+---------------- 1 ----------------", "    | Traceback (most recent call last):",
             "    |   File \"tg.py\", line 3, in a", "    |     raise ValueError(\"bad shard\")",
             "    | ValueError: bad shard", "    +------------------------------------"});
  CHECK(signs.first_at() == LineSigns::Clock::time_point(10ms));
  CHECK(signs.message() == "ValueError: bad shard");
}

TEST_CASE("what threads and destructors say after the main exception does not replace it") {
  Streams streams;
  streams.lines(kTraceback)
      .lines({"Exception ignored in: <function X.__del__ at 0x7f>",
              "Traceback (most recent call last):", "  File \"x.py\"", "AttributeError: 'NoneType'",
              "Exception ignored in: <stdout>", "BrokenPipeError: [Errno 32] Broken pipe"});
  CHECK(streams.signs.message() == "ValueError: bad lr");
  streams.quiet(2s).lines({"Exception in thread QueueFeederThread:",
                           "Traceback (most recent call last):", "  File \"q.py\"",
                           "ConnectionResetError: [Errno 104] Connection reset by peer"});
  CHECK(streams.signs.message() == "ValueError: bad lr");
  CHECK(streams.signs.first_at() == LineSigns::Clock::time_point(10ms));
  CHECK(after({"Exception in thread Thread-1 (f):", "Traceback (most recent call last):",
               "  File \"q.py\"", "OSError: gone"})
            .message() == "OSError: gone");
}

TEST_CASE("a worker that goes on as before has outlived its exception") {
  Streams streams;
  streams.lines(kTraceback).quiet(6s).lines({"epoch 2"});
  CHECK_FALSE(streams.signs.first_at().has_value());
  CHECK(streams.signs.message().empty());

  streams = {};
  streams.lines(kTraceback).quiet(1s).lines(std::vector<std::string>(25, "step"));
  CHECK_FALSE(streams.signs.first_at().has_value());

  streams = {};
  streams.lines(kTraceback).quiet(200ms).printed().quiet(200ms).printed();
  CHECK_FALSE(streams.signs.first_at().has_value());
  streams.lines({"OSError: the next one"});
  CHECK(streams.signs.message() == "OSError: the next one");
}

TEST_CASE("what is written in a tear-down outlives nothing") {
  Streams streams;
  streams.lines(kTraceback)
      .lines(std::vector<std::string>(40, "a message of many lines"))
      .lines(std::vector<std::string>(60, "frame #7: c10::Error"))
      .quiet(2s)
      .lines({"wandb: uploading", "wandb: done"})
      .printed();
  CHECK(streams.signs.first_at() == LineSigns::Clock::time_point(10ms));
}

TEST_CASE("a newer exception takes the place of one that was handled") {
  Streams streams;
  streams.lines({"ConnectionRefusedError: [Errno 111] Connection refused"})
      .quiet(2s)
      .lines({"Traceback (most recent call last):", "ValueError: loss is NaN"});
  CHECK(streams.signs.first_at() == LineSigns::Clock::time_point(2020ms));
  CHECK(streams.signs.message() == "ValueError: loss is NaN");
}

TEST_CASE("of stdout and stderr in one stream a lone exception's line is not certain") {
  Streams streams;
  streams.signs.with_stdout();
  streams.lines({"ValueError: bad sample 17, skipped"});
  CHECK(streams.signs.message() == "ValueError: bad sample 17, skipped");
  CHECK_FALSE(streams.signs.certain());
  SECTION("a traceback takes its place, from its own time on") {
    streams.lines(kTraceback);
    CHECK(streams.signs.certain());
    CHECK(streams.signs.first_at() == LineSigns::Clock::time_point(20ms));
    streams.quiet(1s).lines({"Error: cannot save"});
    CHECK(streams.signs.message() == "ValueError: bad lr");
  }
  SECTION("so do a crash's own words") {
    streams.lines({"terminate called after throwing an instance of 'E'", "  what():  x"});
    CHECK(streams.signs.certain());
    CHECK(streams.signs.message() == "  what():  x");
  }
  CHECK(after({"ValueError: bad lr"}).certain());
}

TEST_CASE("PyTorch's rank before a line of a traceback is no part of it") {
  const LineSigns signs = after({"[rank13]: Traceback (most recent call last):",
                                 "[rank13]: torch.OutOfMemoryError: CUDA out of memory."});
  CHECK(signs.message() == "torch.OutOfMemoryError: CUDA out of memory.");
}

TEST_CASE("crashes of C++, glibc, sanitizers and Python's own are recognized") {
  for (const std::string line :
       {"  what():  bad alloc", "Fatal Python error: Segmentation fault", "free(): invalid pointer",
        "train: a.cpp:12: void f(): Assertion `x > 0' failed.", "Error: no data",
        "thread 'main' panicked at src/main.rs:2:5:", "AssertionError",
        "my.pkg.OddException: why"}) {
    INFO(line);
    CHECK_FALSE(after({line}).message().empty());
  }
  CHECK(after({"terminate called after throwing an instance of 'std::runtime_error'"}).first_at());
}

TEST_CASE("what a healthy program says is no sign") {
  for (const std::string line :
       {"", "loss 0.3", "warning: Error rate 3 %", "TestError handling works", "0Error: x",
        "  ValueError: indented", "[rank0] ok", "[rankx]: ValueError: no rank", "UserWarning: slow",
        "I1121 error_rate=0.2"}) {
    INFO(line);
    CHECK_FALSE(after({line}).first_at().has_value());
  }
}

TEST_CASE("a file system is short of space or of inodes or of nothing") {
  CHECK(shortage({0, true}) == "has no space left");
  CHECK(shortage({4096, true}) == "has only 4096 bytes of space left");
  CHECK(shortage({1 << 30, false}) == "has no inodes left");
  CHECK(shortage({1 << 30, true}).empty());
  CHECK(disk_shortage("").empty());
  CHECK(disk_shortage("/no/such/folder").empty());
  CHECK(disk_shortage("/proc").empty());
}

TEST_CASE("words of a victim are found in any case and others are not") {
  for (const std::string text :
       {"RuntimeError: [gloo/pair.cc:534] Connection closed by peer [127.0.0.1]:1",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a "
        "network error",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "RuntimeError: [gloo/unbound_buffer.cc:81] Timed out waiting 3000ms for recv operation",
        "DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed.",
        "DistStoreError: Timed out after 4 seconds waiting for clients. 1/2 clients joined.",
        "DistStoreError: wait timeout after 300000ms",
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)"}) {
    INFO(text);
    CHECK_FALSE(victim_phrase(text).empty());
  }
  CHECK(victim_phrase("ValueError: bad lr").empty());
  CHECK(victim_phrase("").empty());
  CHECK(victim_phrase("[Errno 32] BrokenPipeError: x") == "BrokenPipeError");
  CHECK(is_time_out("Timed out waiting 8000ms for recv operation to complete"));
  CHECK(is_time_out("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)"));
  CHECK_FALSE(is_time_out("Connection reset by peer"));
}

TEST_CASE("an error file of torch's record decorator gives message and traceback") {
  const auto error = parse_error_file(
      R"({"message": {"message": "ValueError: bad lr", "extraInfo": {"py_callstack":
          "Traceback:\n  line\nValueError: bad lr\n", "timestamp": "1767225600"}}})");
  REQUIRE(error.has_value());
  CHECK(error->message == "ValueError: bad lr");
  CHECK(error->callstack == std::vector<std::string>{"Traceback:", "  line", "ValueError: bad lr"});
  CHECK(parse_error_file(R"({"message": "plain", "timestamp": 3})")->message == "plain");
  CHECK(parse_error_file(R"({"message": {}})")->message.empty());
}

TEST_CASE("of a long traceback the end is kept") {
  std::string text;
  for (int i = 1; i <= 250; ++i) text += std::to_string(i) + "\\n";
  const auto error = parse_error_file(
      R"({"message": {"message": "m", "extraInfo": {"py_callstack": ")" + text + "\"}}}");
  REQUIRE(error.has_value());
  REQUIRE(error->callstack.size() == 200);
  CHECK(error->callstack.front() == "51");
  CHECK(error->callstack.back() == "250");
}

TEST_CASE("what is no error file is none and never an exception") {
  for (const std::string text :
       {"", "{", "[]", "null", "{}", "{\"message\": 3}", "{\"message\": [1]}", "\xff\xfe",
        "{\"message\": {\"message\": 5, \"extraInfo\": []}"}) {
    INFO(text);
    CHECK_FALSE(parse_error_file(text).has_value());
  }
  std::mt19937 random(7);
  const std::string whole =
      R"({"message": {"message": "m", "extraInfo": {"py_callstack": "a\nb", "timestamp": "1"}}})";
  for (int i = 0; i < 5000; ++i) {
    std::string text = whole;
    for (int change = 0; change < 3; ++change)
      text[random() % text.size()] = static_cast<char>(random());
    text.resize(random() % (text.size() + 1));
    parse_error_file(text);
  }
  CHECK_FALSE(parse_error_file(std::string(100'000, '[')).has_value());
}

TEST_CASE("an error file that cannot be one says why and a missing one is nothing") {
  const test::TempDir folder;
  CHECK_FALSE(read_error_file("").has_value());
  CHECK_FALSE(read_error_file((folder / "absent").string()).has_value());
  std::ofstream(folder / "large") << std::string(kErrorFileBytesMax + 1, ' ');
  CHECK(read_error_file((folder / "large").string())->problem.find("larger") != std::string::npos);
  std::ofstream(folder / "garbage") << "oops";
  CHECK_FALSE(read_error_file((folder / "garbage").string())->problem.empty());
  CHECK_FALSE(read_error_file(folder.path().string())->problem.empty());
  std::ofstream(folder / "good") << R"({"message": "m"})";
  CHECK(read_error_file((folder / "good").string())->error.message == "m");
}

TEST_CASE("who succeeded or did as it was told has no evidence against it") {
  CHECK_FALSE(evidence_of(ended({false, 0, false})).has_value());
  CHECK_FALSE(evidence_of(ended({false, 0, false}, true)).has_value());
  CHECK_FALSE(evidence_of(ended({true, SIGTERM, false}, true)).has_value());
  CHECK_FALSE(evidence_of(ended({true, SIGKILL, false}, true)).has_value());
  CHECK_FALSE(evidence_of(ended({false, 143, false}, true)).has_value());
  WorkerObservation caught = ended({false, 0, false});
  caught.exception_at = 1s;
  CHECK_FALSE(evidence_of(caught).has_value());
}

TEST_CASE("an end by itself is evidence from the strongest to the weakest") {
  const auto kind = [](const WorkerObservation& seen) { return evidence_of(seen)->kind; };
  CHECK(kind(ended({true, SIGSEGV, false})) == EvidenceKind::fatal_signal);
  CHECK(kind(ended({true, SIGABRT, false}, true)) == EvidenceKind::fatal_signal);
  CHECK(kind(ended({true, SIGKILL, false})) == EvidenceKind::own_exit);
  CHECK(kind(ended({false, 1, false})) == EvidenceKind::own_exit);
  CHECK(kind(ended({false, 1, false}, true)) == EvidenceKind::late_exit);
  WorkerObservation killed = ended({true, SIGKILL, false});
  killed.memory_kill = true;
  CHECK(kind(killed) == EvidenceKind::memory_kill);
  killed.stopped_by_us = true;
  CHECK(kind(killed) == EvidenceKind::memory_kill);
  killed.killed_by_us = true;
  CHECK_FALSE(evidence_of(killed).has_value());
  WorkerObservation absent = ended({false, 127, false});
  absent.not_started = "No such file or directory";
  CHECK(kind(absent) == EvidenceKind::not_started);
}

TEST_CASE("the earliest sign of a worker counts and the best words are kept") {
  WorkerObservation seen = ended({false, 1, false});
  seen.exception_at = 3s;
  seen.exception_message = "ValueError: bad lr";
  auto evidence = evidence_of(seen);
  CHECK(evidence->kind == EvidenceKind::exception_line);
  CHECK(evidence->at == 3s);
  seen.error_file_at = 4s;
  seen.error_file_message = "from the file";
  evidence = evidence_of(seen);
  CHECK(evidence->kind == EvidenceKind::error_file);
  CHECK(evidence->at == 3s);
  CHECK(evidence->text == "from the file");
}

TEST_CASE("a worker that was stopped in the middle of its exception failed all the same") {
  WorkerObservation seen = ended({true, SIGTERM, false}, true);
  seen.exception_at = 2s;
  seen.exception_message = "ValueError: bad lr";
  REQUIRE(evidence_of(seen).has_value());
  CHECK(evidence_of(seen)->at == 2s);
}

TEST_CASE("an exception's line that is not certain explains a failure and proves none") {
  WorkerObservation seen = ended({true, SIGTERM, false}, true);
  seen.stopped_at = 4s;
  seen.exception_at = 3s;
  seen.exception_message = "OSError: Connection reset by peer";
  seen.exception_in_output = true;
  REQUIRE(evidence_of(seen).has_value());
  CHECK(evidence_of(seen)->in_output);
  seen.exception_certain = false;
  CHECK_FALSE(evidence_of(seen).has_value());
  seen.stopped_by_us = false;
  seen.exit = ddprun::ExitStatus{false, 1, false};
  CHECK(evidence_of(seen)->kind == EvidenceKind::exception_line);
  CHECK(evidence_of(seen)->in_output);
  CHECK(evidence_of(seen)->at == 5s);
  CHECK(evidence_of(seen)->victim_phrase == "Connection reset by peer");
  seen.stopped_by_us = true;
  CHECK(evidence_of(seen)->kind == EvidenceKind::late_exit);
  CHECK(evidence_of(seen)->after_stop);
}

TEST_CASE("how long before our stop an exception came decides what it says") {
  WorkerObservation seen = ended({true, SIGTERM, false}, true);
  seen.exception_message = "ValueError: bad lr";
  seen.ended_at = 3 * 3600s;
  seen.stopped_at = seen.ended_at - 100ms;
  seen.exception_at = *seen.stopped_at - 4s;
  CHECK(evidence_of(seen)->kind == EvidenceKind::exception_line);
  CHECK_FALSE(evidence_of(seen)->after_stop);
  seen.exception_at = *seen.stopped_at - 60s;  // overcome, or stuck since
  CHECK(evidence_of(seen)->after_stop);
  CHECK(evidence_of(seen)->at == seen.ended_at);
  seen.exception_at = *seen.stopped_at - 2 * 3600s;
  CHECK_FALSE(evidence_of(seen).has_value());
  seen.exception_at = *seen.stopped_at + 1ms;  // SIGTERM became an exception
  CHECK_FALSE(evidence_of(seen).has_value());
  seen.exit = ExitStatus{false, 1, false};
  CHECK(evidence_of(seen)->after_stop);
  CHECK(evidence_of(seen)->text == "ValueError: bad lr");
}

TEST_CASE("a crash after our stop may come of it, unless it had begun before") {
  WorkerObservation seen = ended({true, SIGABRT, false}, true);
  seen.stopped_at = 4s;
  CHECK(evidence_of(seen)->kind == EvidenceKind::fatal_signal);
  CHECK(evidence_of(seen)->after_stop);
  seen.was_dying = true;
  CHECK_FALSE(evidence_of(seen)->after_stop);
  seen.was_dying = false;
  seen.exception_at = 3s;
  CHECK_FALSE(evidence_of(seen)->after_stop);
  CHECK(evidence_of(seen)->at == 3s);
  seen.exit = ExitStatus{false, 1, false};
  seen.exception_at.reset();
  seen.was_dying = true;
  CHECK(evidence_of(seen)->kind == EvidenceKind::own_exit);
}

TEST_CASE("a worker that was found to hang hung however it ended") {
  for (const auto& end : {ended({true, SIGTERM, false}, true), ended({false, 0, false}, true),
                          ended({true, SIGABRT, false})}) {
    WorkerObservation seen = end;
    seen.hung_at = 2s;
    seen.hang_message = "at step 5, silent for 3.0 s";
    const auto evidence = evidence_of(seen);
    CHECK(evidence->kind == EvidenceKind::hang);
    CHECK(evidence->at == 2s);
    CHECK(evidence->text == "at step 5, silent for 3.0 s");
  }
}

TEST_CASE("a fatal signal after the words of a victim is a victim's") {
  WorkerObservation seen = ended({true, SIGABRT, false});
  seen.exception_at = 4s;
  seen.exception_message = "  what():  NCCL error: remote process exited";
  CHECK(evidence_of(seen)->kind == EvidenceKind::fatal_signal);
  CHECK(evidence_of(seen)->victim_phrase == "remote process exited");
}

TEST_CASE("the kernel's counters of kills for memory are read from the cgroup first") {
  CHECK(machine::counter_in("low 0\noom 1\noom_kill 3\n", "oom_kill") == 3U);
  CHECK_FALSE(machine::counter_in("oom_kill", "oom_kill").has_value());
  CHECK_FALSE(machine::counter_in("oom_kill x", "oom_kill").has_value());
  const test::TempDir root;
  std::filesystem::create_directories(root / "proc/self");
  CHECK_FALSE(machine::memory_kill_count(root.path().string()).has_value());
  std::ofstream(root / "proc/vmstat") << "nr_free 5\noom_kill 7\n";
  CHECK(machine::memory_kill_count(root.path().string()) == 7U);
  std::ofstream(root / "proc/self/cgroup") << "12:cpu:/x\n0::/job/a\n";
  CHECK(machine::memory_kill_count(root.path().string()) == 7U);
  std::filesystem::create_directories(root / "sys/fs/cgroup/job/a");
  std::ofstream(root / "sys/fs/cgroup/job/a/memory.events") << "oom 2\noom_kill 2\n";
  CHECK(machine::memory_kill_count(root.path().string()) == 2U);
}
