// A labelled corpus of failures, with real processes: the culprit and what decided it.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "tests/integration/launcher/script_job.hpp"

using namespace ddprun;

namespace {

/// What each of three workers does, as a line of a shell, and the expected culprit. In an argument
/// of a worker `$$` is `$$`, by the macro of torchrun.
struct Failure {
  const char* name;
  const char* rank0;
  const char* rank1;
  const char* rank2;
  int culprit;
  const char* evidence;
};

constexpr const char* kWaits = "sleep 20";
constexpr const char* kSucceeds = "exit 0";
// Python tears down slowly: its message is there long before its end.
constexpr const char* kSlowValueError =
    "echo 'Traceback (most recent call last):' >&2; echo 'ValueError: bad lr' >&2; sleep 0.4; "
    "exit 1";
constexpr const char* kEarlyVictim =
    "sleep 0.15; echo 'ConnectionResetError: [Errno 104] Connection reset by peer' >&2; exit 1";

#define ERROR_FILE(message) "echo '{\"message\": \"" message "\"}' > $TORCHELASTIC_ERROR_FILE; "

/// When another one has made that file.
#define AT_GO "while [ ! -e $GO ]; do sleep 0.05; done; "

const Failure kEnds[] = {
    {"exits with 1", kWaits, "exit 1", kWaits, 1, "own_exit"},
    {"exits with 255", kWaits, kWaits, "exit 255", 2, "own_exit"},
    {"exits with 3 after work", "sleep 0.1; exit 3", kWaits, kWaits, 0, "own_exit"},
    {"exits while another has succeeded", kSucceeds, "sleep 0.1; exit 4", kWaits, 1, "own_exit"},
    {"is killed from outside", kWaits, "kill -9 $$", kWaits, 1, "own_exit"},
    {"is terminated from outside", "kill -15 $$", kWaits, kWaits, 0, "own_exit"},
    {"is interrupted from outside", kWaits, kWaits, "kill -2 $$; sleep 1", 2, "own_exit"},
    {"hangs up", kWaits, "kill -1 $$", kWaits, 1, "own_exit"},
    {"segfaults", kWaits, "kill -SEGV $$", kWaits, 1, "fatal_signal"},
    {"aborts", "kill -ABRT $$", kWaits, kWaits, 0, "fatal_signal"},
    {"meets a bus error", kWaits, kWaits, "kill -BUS $$", 2, "fatal_signal"},
    {"meets an illegal instruction", kWaits, "kill -ILL $$", kWaits, 1, "fatal_signal"},
    {"divides by zero", kWaits, "kill -FPE $$", kWaits, 1, "fatal_signal"},
    {"exceeds a file size", kWaits, "kill -XFSZ $$", kWaits, 1, "fatal_signal"},
    {"fails first of two", "sleep 0.3; exit 5", "exit 6", kWaits, 1, "own_exit"},
    {"fails last in rank order", "sleep 0.3; exit 5", kWaits, "exit 6", 2, "own_exit"},
};

const Failure kWords[] = {
    {"raises in Python", kWaits,
     "echo 'Traceback (most recent call last):' >&2; echo "
     "'ValueError: bad lr' >&2; exit 1",
     kWaits, 1, "exception_line"},
    {"raises under PyTorch's prefix", kWaits, kWaits,
     "echo '[rank2]: Traceback (most recent call "
     "last):' >&2; echo '[rank2]: RuntimeError: shape' >&2; exit 1",
     2, "exception_line"},
    {"throws in C++",
     "echo 'terminate called after throwing' >&2; echo '  what():  bad' >&2; kill "
     "-ABRT $$",
     kWaits, kWaits, 0, "fatal_signal"},
    {"fails an assertion", kWaits,
     "echo \"t: a.cc:1: int f(): Assertion \\`x' failed.\" >&2; kill "
     "-ABRT $$",
     kWaits, 1, "fatal_signal"},
    {"runs out of GPU memory", kWaits, kWaits,
     "echo 'torch.OutOfMemoryError: CUDA out of memory' "
     ">&2; exit 1",
     2, "exception_line"},
    {"leaves an error file", kWaits, ERROR_FILE("KeyError: 7") "exit 1", kWaits, 1, "error_file"},
    {"leaves an error file beside words",
     ERROR_FILE("KeyError: 7") "echo 'KeyError: 7' >&2; exit 1", kWaits, kWaits, 0, "error_file"},
    {"leaves garbage as an error file", kWaits, "echo '{{{' > $TORCHELASTIC_ERROR_FILE; exit 9",
     kWaits, 1, "own_exit"},
    {"leaves a folder as an error file", kWaits, "mkdir $TORCHELASTIC_ERROR_FILE; exit 9", kWaits,
     1, "own_exit"},
    {"speaks of an exception and succeeds", "echo 'ValueError: caught' >&2; exit 0",
     "sleep 0.1; exit 3", kWaits, 1, "own_exit"},
    {"is the only one and speaks as a victim", kWaits,
     "echo 'ConnectionRefusedError: x' >&2; exit 1", kWaits, 1, "exception_line"},
    {"is killed beside one that has handled an exception",
     "echo 'Traceback (most recent call last):' >&2; echo 'ValueError: handled' >&2; "
     "for i in `seq 40`; do sleep 0.05; echo step; done; : > $GO; sleep 20",
     AT_GO "kill -9 $$", kWaits, 1, "own_exit"},
    {"exits beside one that has handled an exception and moves a bar on",
     "echo 'ValueError: handled' >&2; "
     "for i in `seq 40`; do sleep 0.05; printf '\\rstep' >&2; done; : > $GO; sleep 20",
     AT_GO "exit 3", kWaits, 1, "own_exit"},
    {"exits beside one that prints which exception it has handled",
     "echo 'ValueError: bad sample 17, skipped'; sleep 20", "sleep 1; exit 9", kWaits, 1,
     "own_exit"},
    {"raises beside one that crashes when it is told to stop",
     "trap 'kill -ABRT $$' TERM; while :; do sleep 0.02; done", kWaits,
     "sleep 0.1; echo 'ValueError: bad lr' >&2; exit 1", 2, "exception_line"},
    {"exits beside one that cannot save when it is told to stop", "sleep 0.1; exit 3",
     "trap 'echo \"OSError: disk full\" >&2; exit 1' TERM; while :; do sleep 0.02; done", kWaits, 0,
     "own_exit"},
    {"prints binary garbage", kWaits, "head -c 3000 /dev/urandom >&2; exit 7", kWaits, 1,
     "own_exit"},
};

const Failure kVictimsFirst[] = {
    {"raises slowly beside one victim", kEarlyVictim, kSlowValueError, kWaits, 1, "exception_line"},
    {"raises slowly beside two victims", kEarlyVictim, kEarlyVictim, kSlowValueError, 2,
     "exception_line"},
    {"raises slowly under PyTorch's prefix",
     "echo '[rank0]: Traceback (most recent call last):' "
     ">&2; echo '[rank0]: ValueError: x' >&2; sleep 0.4; exit 1",
     kEarlyVictim, kWaits, 0, "exception_line"},
    {"exits with 3 long after its victim", kEarlyVictim, "trap '' TERM; sleep 1.1; exit 3", kWaits,
     1, "late_exit"},
    {"exits with 3 a moment after its victim", kEarlyVictim, "sleep 0.4; exit 3", kWaits, 1,
     "own_exit"},
    {"aborts after its victim", kEarlyVictim, kWaits, "trap '' TERM; sleep 0.4; kill -ABRT $$", 2,
     "fatal_signal"},
    {"segfaults after its victim", "trap '' TERM; sleep 0.4; kill -SEGV $$", kEarlyVictim, kWaits,
     0, "fatal_signal"},
    {"writes its error file and tears down slowly", kEarlyVictim,
     ERROR_FILE("ValueError: late") "sleep 0.4; exit 1", kWaits, 1, "error_file"},
    {"loses a gloo peer too late",
     "sleep 0.15; echo 'RuntimeError: [gloo/pair.cc:534] Connection "
     "closed by peer' >&2; exit 1",
     kSlowValueError, kWaits, 1, "exception_line"},
    {"loses an NCCL peer too late",
     "sleep 0.15; echo 'DistBackendError: NCCL error: remote process "
     "exited or there was a network error' >&2; kill -ABRT $$",
     kWaits, kSlowValueError, 2, "exception_line"},
    {"breaks a pipe too late", kSlowValueError,
     "sleep 0.15; echo 'BrokenPipeError: [Errno 32] Broken pipe' >&2; exit 1", kWaits, 0,
     "exception_line"},
    {"is waited for in a store",
     "sleep 0.15; echo 'DistStoreError: wait timeout after 1000ms' >&2; "
     "exit 1",
     kWaits, kSlowValueError, 2, "exception_line"},
    {"is a victim with an error file",
     "sleep 0.15; " ERROR_FILE("ConnectionResetError: [Errno 104] Connection reset "
                               "by peer") "exit 1",
     kSlowValueError, kWaits, 1, "exception_line"},
};

// With a page of progress each; the waiting workers are further than the one they wait for.
const Failure kHangs[] = {
    {"hangs where the others wait for it", "exec $W progress 5 forward progress 5 reduce sleep 20",
     "exec $W progress 5 forward progress 5 reduce sleep 20", "exec $W progress 5 forward sleep 20",
     2, "hang"},
    {"hangs a step behind", "exec $W progress 4 reduce sleep 20",
     "exec $W progress 5 forward sleep 20", "exec $W progress 5 forward sleep 20", 0, "hang"},
    {"hangs alone and its victim speaks when it is stopped",
     "trap 'echo \"RuntimeError: Connection closed by peer\" >&2; exit 1' TERM; sleep 20 & wait",
     "exec $W ignore-term progress 5 load sleep 20", kWaits, 1, "hang"},
    {"is suspended while another gives up", "sleep 0.3; echo lost rank 1 >&2; exit 1",
     "kill -19 $$", kWaits, 1, "hang"},
    {"is suspended while another loses it",
     "sleep 0.3; echo 'RuntimeError: Timed out waiting 300ms' >&2; exit 1", "kill -19 $$", kWaits,
     1, "hang"},
    {"raises beside one that is suspended", "sleep 0.3; echo 'ValueError: my own bug' >&2; exit 1",
     "kill -19 $$", kWaits, 0, "exception_line"},
    {"leaves an error file beside one that is suspended",
     "sleep 0.3; " ERROR_FILE("KeyError: 7") "exit 1", "kill -19 $$", kWaits, 0, "error_file"},
};

/// Whether our stdout and stderr are two pipes, or one, through which workers' streams come as one.
enum class Consoles { two, one };

nlohmann::json verdict_of(const Failure& failure, Consoles consoles) {
  const test::TempDir folder;
  const std::string file = (folder / "report.json").string();
  const std::string script = std::string("case $RANK in 0) ") + failure.rank0 + ";; 1) " +
                             failure.rank1 + ";; 2) " + failure.rank2 + ";; esac";
  test::Job job;
  auto settings = job.settings();
  settings.environment.emplace_back("W", test::helper("job_worker"));
  settings.environment.emplace_back("GO", (folder / "go").string());
  std::vector<std::string> command;
  if (consoles == Consoles::one) command = {"/bin/sh", "-c", "exec \"$@\" >&2", "sh"};
  for (const std::string& word :
       {test::program("ddprun"), std::string("--nproc-per-node=3"), "--report=" + file,
        std::string("--grace-period=2"), std::string("--progress-timeout=0.8"),
        std::string("/bin/sh"), std::string("-c"), script})
    command.push_back(word);
  const auto result = test::run(command, settings);
  CHECK(result.status != 0);
  CHECK(result.err.find("ddprun: culprit: rank " + std::to_string(failure.culprit) + " ") !=
        std::string::npos);
  std::ifstream stream(file);
  return nlohmann::json::parse(std::string(std::istreambuf_iterator<char>(stream), {}));
}

template <std::size_t N>
void check(const Failure (&failures)[N], Consoles consoles = Consoles::two) {
  for (const Failure& failure : failures) {
    INFO("the culprit " << failure.name);
    const auto report = verdict_of(failure, consoles);
    INFO(report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace));
    CHECK(report["outcome"] == "failed");
    CHECK(report["culprit"]["rank"] == failure.culprit);
    CHECK(report["culprit"]["evidence"] == failure.evidence);
  }
}

}  // namespace

TEST_CASE("a worker that ends badly by itself is the culprit") { check(kEnds); }

TEST_CASE("the culprit's own message decides") { check(kWords); }

TEST_CASE("a culprit that dies after its victims is found all the same") { check(kVictimsFirst); }

TEST_CASE("a culprit that hangs is told from the workers that wait for it") { check(kHangs); }

TEST_CASE("culprits are found as well where stdout and stderr come as one") {
  check(kWords, Consoles::one);
  check(kVictimsFirst, Consoles::one);
}

TEST_CASE("a culprit that dies slowly is found by its log file, too") {
  const test::TempDir folder;
  test::Job job;
  const auto result = test::run(
      {test::program("ddprun"), "--nproc-per-node=2", "--redirects=3",
       "--log-dir=" + folder.path().string(), "/bin/sh", "-c",
       std::string("case $RANK in 0) sleep 0.3; echo 'RuntimeError: lost rank 1' >&2; exit 1;; "
                   "1) trap '' TERM; ") +
           kSlowValueError + ";; esac"},
      job.settings());
  CAPTURE(result.err);
  CHECK(result.err.find("ddprun: culprit: rank 1 ") != std::string::npos);
  CHECK(result.err.find("ValueError: bad lr") != std::string::npos);
}

TEST_CASE("workers that fail of the same cause are reported as that and not as victims") {
  const auto result = test::run_script(
      {"--nproc-per-node=2"}, "trap '' TERM; sleep 0.3; echo 'ValueError: bad lr' >&2; exit 1");
  CAPTURE(result.job.err);
  CHECK(result.job.status == 1);
  CHECK(result.job.err.find("ddprun: both workers failed the same way; first: rank ") !=
        std::string::npos);
  CHECK(result.job.err.find("victim") == std::string::npos);
  const auto report = nlohmann::json::parse(result.report);
  CHECK(report["alike"].size() == 1);
  CHECK(report["victims"].empty());
  CHECK(report["rounds"][0]["culprit"]["rank"] == report["culprit"]["rank"]);
  // All times count from the round's start.
  CHECK(report["culprit"]["first_sign_seconds"] <= report["culprit"]["ended_seconds"]);
}

TEST_CASE("a suspended worker is named beside one that reports an error of its own") {
  const auto result = test::run_script({"--nproc-per-node=2"},
                                       "test $RANK = 0 || kill -19 $$; sleep 0.3; "
                                       "echo 'ValueError: my own bug' >&2; exit 1");
  CAPTURE(result.job.err);
  CHECK(result.job.status == 1);
  CHECK(result.job.err.find("evidence: its stderr: ValueError: my own bug\n") != std::string::npos);
  CHECK(result.job.err.find("ddprun: rank 1 was suspended by a signal (SIGSTOP) when the round was "
                            "stopped\n") != std::string::npos);
  CHECK(result.job.err.find("victim") == std::string::npos);
  const auto report = nlohmann::json::parse(result.report);
  REQUIRE(report["suspects"].size() == 1);
  CHECK(report["suspects"][0]["rank"] == 1);
  CHECK(report["suspects"][0]["suspended"] == true);
}

TEST_CASE("the victim's words are shown as it wrote them") {
  // Rank 1 dies when rank 0 ignores SIGTERM.
  const test::TempDir folder;
  const std::string ready = (folder / "ready").string();
  const auto result = test::run_script(
      {"--nproc-per-node=2"},
      "trap '' TERM; test $RANK = 1 || : > " + ready + "; while ! test -e " + ready +
          "; do sleep 0.01; done; test $RANK = 0 || kill -SEGV $$; "
          "sleep 0.2; echo 'OSError: Connection RESET by peer' >&2; exit 1");
  CAPTURE(result.job.err);
  CHECK(result.job.err.find(": Connection RESET by peer\n") != std::string::npos);
}

TEST_CASE("a culprit that was killed has the signal's exit code, whatever it wrote before") {
  test::Job job;
  const auto result =
      test::run({test::program("ddprun"), "--nproc-per-node=2", "/bin/sh", "-c",
                 "[ $RANK = 1 ] && { echo 'KeyError: handled' >&2; sleep 0.2; kill -9 $$; }; "
                 "sleep 20"},
                job.settings());
  CAPTURE(result.err);
  CHECK(result.status == 137);
  CHECK(result.err.find("ddprun: culprit: rank 1 ") != std::string::npos);
}

TEST_CASE("a report that cannot be written at the end causes a warning and no other exit code") {
  const test::TempDir folder;
  const std::string reports = (folder / "reports").string();
  for (const bool is_quiet : {false, true}) {
    test::Job job;
    std::filesystem::create_directory(reports);
    const auto result = test::run({test::program("ddprun"), "--report=" + reports + "/r.json",
                                   is_quiet ? "--log-level=error" : "--log-level=warning",
                                   "/bin/sh", "-c", "rm -r " + reports + "; exit 5"},
                                  job.settings());
    CHECK(result.status == 5);
    const bool warns =
        result.err.find("ddprun: warning: cannot write report " + reports) != std::string::npos;
    CHECK(warns == !is_quiet);
  }
}

TEST_CASE("a success is reported as one with its rounds") {
  const test::TempDir folder;
  test::Job job;
  const auto result = job.run({"--report=" + (folder / "r.json").string(), "--max-restarts=2"},
                              {"round", "0", "exit", "1"});
  CHECK(result.status == 0);
  std::ifstream stream(folder / "r.json");
  const auto report = nlohmann::json::parse(stream);
  CHECK(report["outcome"] == "succeeded");
  CHECK(report["culprit"].is_null());
  REQUIRE(report["rounds"].size() == 2);
  CHECK(report["rounds"][0]["end"].get<std::string>().starts_with("rank 0 exited with code 1"));
  CHECK(report["restart_count"] == 1);
  CHECK(report["rounds"][0]["culprit"]["exit_code"] == 1);
  CHECK_FALSE(report["rounds"][1].contains("culprit"));
  CHECK(report["command"][1] == "--report=" + (folder / "r.json").string());
  CHECK(report["world_size"] == 1);
  CHECK(result.err.find("ddprun: done in ") != std::string::npos);
  CHECK(result.err.find(", 1 restart, at most ") != std::string::npos);
}

TEST_CASE("a job that is stopped while a restart waits reports the round as it ended") {
  const test::TempDir folder;
  test::Job job;
  test::Child child(test::Job::command({"--report=" + (folder / "r.json").string(),
                                        "--max-restarts=3", "--restart-delay=60"},
                                       {"exit", "7"}),
                    job.settings());
  REQUIRE(child.wait_for([](const std::string&, const std::string& err) {
    return err.find("restarting the workers in ") != std::string::npos;
  }));
  child.signal(SIGINT);
  CHECK(child.wait().status == 128 + SIGINT);
  std::ifstream stream(folder / "r.json");
  const auto report = nlohmann::json::parse(stream);
  CHECK(report["outcome"] == "cancelled");
  REQUIRE(report["rounds"].size() == 2);
  CHECK(report["rounds"][1]["end"].get<std::string>().starts_with("rank 0 exited with code 7"));
  CHECK(report["rounds"][1]["culprit"]["exit_code"] == 7);
}

TEST_CASE("torchrun's exit code and causes that are never retried can be asked for") {
  test::Job job;
  CHECK(job.run({"--exit-code=one"}, {"exit", "5"}).status == 1);
  const auto result = job.run({"--max-restarts=3", "--no-restart-on=5"}, {"exit", "5"});
  CHECK(result.status == 5);
  CHECK(result.err.find("not restarted: exit code 5 is in --no-restart-on") != std::string::npos);
  CHECK(job.run({"--explain-policy", "--max-restarts=3"}, {}).out.find("at most 3 times") !=
        std::string::npos);
}

TEST_CASE("workers that raise the same error are all alike, also those that are stopped") {
  const auto result = test::run_script({"--nproc-per-node=4", "--max-restarts=1"},
                                       "printf 'Traceback (most recent call last):\\n  File "
                                       "\"t.py\", line 1\\nRuntimeError: boom\\n' "
                                       ">&2; exit 1");
  CHECK_THAT(result.job.err,
             Catch::Contains(" (RuntimeError: boom); restarting the workers (1 of 1 restarts)\n") &&
                 Catch::Contains("the same error in both rounds: a restart does not help\n") &&
                 !Catch::Contains("its last lines") && !Catch::Contains("victim"));
}
