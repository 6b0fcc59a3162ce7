// Output that is not taken: workers never wait for it, and every byte is in a file, on the console,
// or counted as dropped.
#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/integration/launcher/logs.hpp"
#include "tests/support/job.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using test::Job;
using test::Logs;

namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The number behind a key of a report.
std::uint64_t dropped_in(const std::string& json) {
  const std::string key = "\"dropped_bytes\":";
  const auto at = json.find(key);
  REQUIRE(at != std::string::npos);
  return std::stoull(json.substr(at + key.size()));
}

/// `ddprun ... | READER`, in a shell; the reader sees the file `status` once ddprun has ended.
test::ChildResult run_into(const std::vector<std::string>& command, const std::string& reader,
                           const test::ChildOptions& options, const test::TempDir& folder) {
  const std::string status = (folder / "status").string();
  std::vector<std::string> words{
      "/bin/sh", "-c", "{ \"$@\"; echo $? > " + status + "; } | { " + reader + "; }", "sh"};
  words.insert(words.end(), command.begin(), command.end());
  return test::run(words, options);
}

void check_numbered(const std::string& text, int rank, int lines) {
  REQUIRE(text.size() == static_cast<std::size_t>(lines) * 100);
  for (int line = 0; line < lines; ++line) {
    char head[32];
    std::snprintf(head, sizeof head, "%d %08d xxx", rank, line);
    const std::string_view got(text.data() + line * 100, 100);
    if (!got.starts_with(head) || got.back() != '\n') {
      FAIL("line " << line << " of rank " << rank << " is " << got);
    }
  }
}

}  // namespace

TEST_CASE("an output that refuses bytes is named with the system's reason") {
  test::Job job;
  std::vector<std::string> words{"/bin/sh", "-c", "exec \"$@\" > /dev/full", "sh"};
  for (const std::string& word : test::Job::command({"--nproc-per-node=2"}, {"print", "lost"}))
    words.push_back(word);
  const auto result = test::run(words, job.settings());
  CHECK_THAT(result.err,
             Catch::Contains("ddprun: dropped 26 bytes of the workers' output: stdout or "
                             "stderr cannot be written: No space left on device\n"));
}

TEST_CASE("eight teed writers lose and tear no line, in files or here") {
  const Logs logs;
  constexpr int kLines = 30'000;
  const auto result = Job().run({logs.option(), "--nproc-per-node=8", "--tee=3"},
                                {"numbered", std::to_string(kLines * 100)});
  CHECK(result.status == 0);
  std::vector<std::string> shown(8);
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    REQUIRE(line.starts_with("[rank"));
    REQUIRE(line.substr(6, 2) == "] ");
    shown.at(static_cast<std::size_t>(line[5] - '0')) += line.substr(8) + "\n";
  }
  for (int rank = 0; rank < 8; ++rank) {
    check_numbered(logs.text("attempt_0/" + std::to_string(rank) + "/stdout.log"), rank, kLines);
    check_numbered(shown[static_cast<std::size_t>(rank)], rank, kLines);
  }
}

TEST_CASE("bytes that a stopped reader leaves are counted, and files have all of them") {
  const Logs logs;
  Job job;
  const test::TempDir folder;
  const std::string report = (folder / "report.json").string();
  constexpr int kLines = 200'000;
  const auto result =
      run_into(Job::command({logs.option(), "--nproc-per-node=2", "--tee=1", "--log-policy=drop",
                             "--report=" + report},
                            {"numbered", std::to_string(kLines * 100)}),
               "while [ ! -e " + (folder / "status").string() + " ]; do sleep 0.05; done; cat",
               job.settings(), folder);
  CHECK_FALSE(result.timed_out);
  CHECK(content(folder / "status") == "0\n");
  const std::uint64_t dropped = dropped_in(content(report));
  CHECK(dropped > 0);
  CHECK(result.out.size() + dropped == std::size_t{2} * kLines * (100 + 8));
  CHECK(result.err.find("ddprun: dropped " + std::to_string(dropped) + " bytes") !=
        std::string::npos);
  check_numbered(logs.text("attempt_0/0/stdout.log"), 0, kLines);
  check_numbered(logs.text("attempt_0/1/stdout.log"), 1, kLines);
}

TEST_CASE("a reader that continues gets the number of dropped bytes") {
  Job job;
  const test::TempDir folder;
  const std::string report = (folder / "report.json").string();
  constexpr int kLines = 300'000;
  // It sleeps until the workers have printed everything, and reads while they still run.
  const std::string sign = (folder / "sign").string();
  const std::vector<std::string> command{
      test::program("ddprun"),
      "--output=pipe",
      "--log-policy=drop",
      "--report=" + report,
      "/bin/sh",
      "-c",
      test::helper("job_worker") + " numbered " + std::to_string(kLines * 100) + "; > " + sign +
          "; while [ ! -e " + sign + "2 ]; do sleep 0.05; done; echo end"};
  const auto result = run_into(
      command,
      "while [ ! -e " + sign + " ]; do sleep 0.05; done; head -c 8000000; > " + sign + "2; cat",
      job.settings(), folder);
  const auto at = result.out.find("ddprun: dropped ");
  REQUIRE(at != std::string::npos);
  const auto end = result.out.find('\n', at) + 1;
  const std::uint64_t dropped = dropped_in(content(report));
  CHECK(std::stoull(result.out.substr(at + 16)) == dropped);
  const std::size_t note = end - at + 1;  // with the newline before it
  CHECK(result.out.size() - note + dropped == std::size_t{kLines} * 108 + 12);
  CHECK(result.out.ends_with("[rank0] end\n"));
}

TEST_CASE("a reader that is late or slow gets every line, also those of workers that have ended") {
  // More than the queue takes, and less than that: then the workers end before it begins to read.
  for (const int lines : {200'000, 50'000}) {
    CAPTURE(lines);
    Job job;
    const test::TempDir folder;
    const std::string report = (folder / "report.json").string();
    const auto result = run_into(Job::command({"--nproc-per-node=2", "--report=" + report},
                                              {"numbered", std::to_string(lines * 100)}),
                                 "sleep 2.5; cat", job.settings(), folder);
    CHECK(dropped_in(content(report)) == 0);
    CHECK(result.out.size() == std::size_t{2} * static_cast<std::size_t>(lines) * 108);
  }
}

TEST_CASE("workers that wait for a reader lose nothing") {
  const Logs logs;
  Job job;
  const test::TempDir folder;
  const std::string report = (folder / "report.json").string();
  constexpr int kLines = 150'000;
  const auto result = run_into(Job::command({logs.option(), "--nproc-per-node=2", "--tee=1",
                                             "--log-policy=block", "--report=" + report},
                                            {"numbered", std::to_string(kLines * 100)}),
                               "sleep 1; cat", job.settings(), folder);
  CHECK(dropped_in(content(report)) == 0);
  CHECK(result.out.size() == std::size_t{2} * kLines * 108);
  check_numbered(logs.text("attempt_0/1/stdout.log"), 1, kLines);
}

TEST_CASE("a job can be ended while its workers wait for a stopped reader") {
  Job job;
  const test::TempDir folder;
  const std::string report = (folder / "report.json").string();
  std::vector<std::string> command{"/usr/bin/timeout", "-s", "TERM", "1.5"};
  for (const std::string& word :
       Job::command({"--nproc-per-node=2", "--log-policy=block", "--report=" + report},
                    {"numbered", "50000000"}))
    command.push_back(word);
  const auto result = run_into(
      command, "while [ ! -e " + (folder / "status").string() + " ]; do sleep 0.05; done; cat",
      job.settings(), folder);
  CHECK_FALSE(result.timed_out);
  CHECK(content(folder / "status") == "124\n");  // of timeout: the job ended of its SIGTERM
  CHECK(content(report).find("\"exit_code\": 143") != std::string::npos);
  CHECK(dropped_in(content(report)) > 0);
  CHECK(test::eventually([&] { return test::processes_with(job.mark_entry()).empty(); }));
}

TEST_CASE("rounds end and begin while a worker waits for a stopped reader") {
  Job job;
  const test::TempDir folder;
  const std::string sign = (folder / "sign").string();  // of the second round's end
  const auto result =
      run_into({test::program("ddprun"), "--nproc-per-node=2", "--max-restarts=1",
                "--log-policy=block", "/bin/sh", "-c",
                "[ $RANK = 0 ] && exec " + test::helper("job_worker") +
                    " numbered 50000000; sleep 0.3; [ $TORCHELASTIC_RESTART_COUNT = 1 ] && : > " +
                    sign + "; exit 3"},
               "while [ ! -e " + sign + " ]; do sleep 0.05; done; sleep 0.2; cat > /dev/null",
               job.settings(), folder);
  CHECK_FALSE(result.timed_out);
  CHECK(content(folder / "status") == "3\n");
  CHECK(result.err.find("1 of 1 restarts used") != std::string::npos);
}

TEST_CASE("an unread stdout affects neither stderr nor the verdict") {
  // Rank 2 fills stdout; of the others' failures one is the other's consequence, though its worker
  // ends first: when the agent has read the cause, which it also writes to a file.
  const std::string script =
      "case $RANK in 2) exec $W numbered 50000000 sleep 60;;"
      " 1) sleep 0.3; $W print-err 'Traceback (most recent call last):'"
      " print-err 'ValueError: bad lr'; exec sleep 60;;"
      " 0) until grep -qs ValueError $LOGS/*/attempt_0/1/stderr.log; do sleep 0.02; done;"
      " i=0; while [ $i -lt 50 ]; do echo IMPORTANT $i >&2; i=$((i+1)); done;"
      " $W print-err 'ConnectionResetError: [Errno 104] Connection reset by peer';"
      " : > $LOGS/../sign; exit 1;; esac";
  using Case = std::pair<std::string, std::string>;
  for (const auto& [policy, redirection] : {Case{"drop", ""}, {"block", ""}, {"block", " 2>&1"}}) {
    CAPTURE(policy, redirection);
    Job job;
    auto settings = job.settings();
    settings.environment.emplace_back("W", test::helper("job_worker"));
    const test::TempDir folder;
    settings.environment.emplace_back("LOGS", (folder / "logs").string());
    const std::string report = (folder / "report.json").string();
    const auto result = run_into(
        {"/bin/sh", "-c", "\"$@\"" + redirection, "sh", test::program("ddprun"),
         "--nproc-per-node=3", "--grace-period=1", "--log-policy=" + policy, "--tee=1:2",
         "--log-dir=" + (folder / "logs").string(), "--report=" + report, "/bin/sh", "-c", script},
        "while [ ! -e " + (folder / "sign").string() +
            " ]; do sleep 0.05; done; sleep 1.5; cat > /dev/null",
        settings, folder);
    CHECK_FALSE(result.timed_out);
    const std::string json = content(report);
    CHECK(json.find("\"evidence_text\": \"ValueError: bad lr\"") < json.find("\"victims\""));
    if (!redirection.empty()) continue;
    CHECK(result.err.find("[rank0] IMPORTANT 0\n") != std::string::npos);
    CHECK(result.err.find("[rank0] IMPORTANT 49\n") != std::string::npos);
    CHECK(result.err.find("culprit: rank 1") != std::string::npos);
  }
}

TEST_CASE("unread rounds leave the agent no pipes") {
  // Rank 0 counts when rank 1 runs: before that the agent lacks some of its pipes. A pipe of which
  // the agent has both ends counts once. The log thread may still close those of the round before,
  // so rank 0 counts again until there are no more than in the first round.
  const std::string script =
      "[ $RANK = 1 ] && { : > started.$TORCHELASTIC_RESTART_COUNT;"
      " exec $W flood 12000000 sleep 60; };"
      "until [ -e started.$TORCHELASTIC_RESTART_COUNT ]; do sleep 0.02; done; i=0;"
      "while pipes=$(ls -l /proc/$PPID/fd | grep -o pipe:.* | sort -u | wc -l); [ $i -lt 100 ] && "
      "[ -e first ] &&"
      " [ $pipes -gt $(cat first) ]; do i=$((i+1)); sleep 0.05; done;"
      "[ -e first ] || echo $pipes > first; echo $pipes >> counts; sleep 0.3; exit 3";
  Job job;
  const test::TempDir folder;
  auto settings = job.settings();
  settings.environment.emplace_back("W", test::helper("job_worker"));
  const auto result = run_into(
      {"/bin/sh", "-c", "cd " + folder.path().string() + " && exec \"$@\"", "sh",
       test::program("ddprun"), "--nproc-per-node=2", "--max-restarts=6", "--restart-delay=0",
       "--log-policy=block", "--grace-period=1", "/bin/sh", "-c", script},
      "cd " + folder.path().string() +
          "; until [ \"$(wc -l 2>/dev/null < counts)\" = 7 ]; do sleep 0.05; done; cat > /dev/null",
      settings, folder);
  CHECK_FALSE(result.timed_out);
  std::vector<int> open;
  std::istringstream lines(content(folder / "counts"));
  for (int count = 0; lines >> count;) open.push_back(count);
  REQUIRE(open.size() == 7);
  CHECK(open.front() > 0);
  CHECK(open.back() <= open.front());
}

TEST_CASE("a full disk stops no worker and every lost byte is counted") {
  Job job;
  const test::TempDir folder;
  const std::string disk = (folder / "disk").string();
  std::filesystem::create_directory(disk);
  const std::string mount = "mount -t tmpfs -o size=1m none " + disk;
  const auto probe = test::run({"/usr/bin/env", "unshare", "-Urm", "sh", "-c", mount});
  if (probe.status != 0) test::skip("no user and mount namespaces here: " + probe.err);
  const std::string report = (folder / "report.json").string();
  constexpr int kLines = 40'000;
  std::vector<std::string> words{
      "/usr/bin/env",
      "unshare",
      "-Urm",
      "sh",
      "-c",
      mount + " && \"$@\" > /dev/null; echo $?; cat $(find " + disk + " -name stdout.log) | wc -c",
      "sh"};
  for (const std::string& word :
       Job::command({"--log-dir=" + disk, "--nproc-per-node=2", "--tee=1", "--report=" + report},
                    {"numbered", std::to_string(kLines * 100)}))
    words.push_back(word);
  const auto result = test::run(words, job.settings());
  std::istringstream said(result.out);
  int status = -1;
  std::uint64_t written = 0;
  said >> status >> written;
  CHECK(status == 0);
  CHECK(written > 0);
  CHECK(written + dropped_in(content(report)) == std::uint64_t{2} * kLines * 100);
  CHECK(result.err.find("No space left on device") != std::string::npos);
}

TEST_CASE("a log folder on a disk without room for it is refused") {
  const test::TempDir folder;
  const std::string disk = folder.path().string();
  const std::string mount = "mount -t tmpfs -o nr_inodes=1 none " + disk;
  const auto probe = test::run({"/usr/bin/env", "unshare", "-Urm", "sh", "-c", mount});
  if (probe.status != 0) test::skip("no user and mount namespaces here: " + probe.err);
  std::vector<std::string> words{"/usr/bin/env",       "unshare", "-Urm", "sh", "-c",
                                 mount + " && \"$@\"", "sh"};
  for (const std::string& word :
       Job::command({"--log-dir=" + disk, "--tee=1"}, {"print", "started"}))
    words.push_back(word);
  const auto result = test::run(words, Job().settings());
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(result.err.find("No space left on device") != std::string::npos);
}

TEST_CASE("a worker that fails because the log disk is full has the disk named in its report") {
  const test::TempDir folder;
  const std::string disk = folder.path().string();
  const std::string mount = "mount -t tmpfs -o size=1m none " + disk;
  const auto probe = test::run({"/usr/bin/env", "unshare", "-Urm", "sh", "-c", mount});
  if (probe.status != 0) test::skip("no user and mount namespaces here: " + probe.err);
  std::vector<std::string> words{"/usr/bin/env",       "unshare", "-Urm", "sh", "-c",
                                 mount + " && \"$@\"", "sh"};
  for (const std::string& word :
       Job::command({"--log-dir=" + disk, "--redirects=3"}, {"numbered", "4000000"}))
    words.push_back(word);
  const auto result = test::run(words, Job().settings());
  CHECK(result.status == 9);  // a write of its own failed
  CHECK_THAT(result.err,
             Catch::Matchers::Contains("ddprun: hint: " + disk + "/") &&
                 Catch::Matchers::Contains(" has no space left: that may be the cause"));
}
