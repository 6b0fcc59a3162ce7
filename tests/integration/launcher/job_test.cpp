// Whole jobs of `ddprun`: environment, exit codes, reports, restarts, streams. Workers are
// job_worker's actions.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/unique_handle.hpp"
#include "proto/frame.hpp"
#include "tests/support/child.hpp"
#include "tests/support/job.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Catch::Matchers::Matches;
using Catch::Matchers::StartsWith;
using test::Job;
using test::sorted_lines;

namespace {

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a job that succeeds prints nothing of its own and ends with 0") {
  const auto result = Job().run({"--nproc-per-node=2"}, {"print", "hello"});
  CHECK(result.status == 0);
  CHECK(sorted_lines(result.out) == Lines{"[rank0] hello", "[rank1] hello"});
  CHECK(result.err.empty());
}

TEST_CASE("one worker has our own streams, untouched") {
  const auto result = Job().run(
      {}, {"print", "hello", "print-err", "oops", "env", "WORLD_SIZE", "stdin"}, "typed\n");
  CHECK(result.status == 0);
  CHECK(result.out == "hello\nWORLD_SIZE=1\ntyped\n");
  CHECK(result.err == "oops\n");
}

TEST_CASE("workers get their ranks, one store address and the restart budget") {
  const auto result =
      Job().run({"--nproc-per-node=2", "--max-restarts=3", "--rdzv-id=job7"},
                {"env", "RANK", "env", "LOCAL_RANK", "env", "WORLD_SIZE", "env", "MASTER_ADDR",
                 "env", "TORCHELASTIC_MAX_RESTARTS", "env", "TORCHELASTIC_RUN_ID"});
  CHECK(result.status == 0);
  Lines expected;
  for (const std::string& rank : Lines{"0", "1"}) {
    for (const std::string& text :
         {"RANK=" + rank, "LOCAL_RANK=" + rank, std::string("WORLD_SIZE=2"),
          std::string("MASTER_ADDR=127.0.0.1"), std::string("TORCHELASTIC_MAX_RESTARTS=3"),
          std::string("TORCHELASTIC_RUN_ID=job7")}) {
      expected.push_back("[rank" + rank + "] " + text);
    }
  }
  std::sort(expected.begin(), expected.end());
  CHECK(sorted_lines(result.out) == expected);
}

TEST_CASE("workers have the descriptors 0, 1 and 2 and no other") {
  // An extra descriptor of the user's shell must not reach them either.
  const auto result =
      test::run({"/bin/sh", "-c", "exec 7</dev/null; exec \"$@\"", "sh", test::program("ddprun"),
                 "--nproc-per-node=2", test::helper("job_worker"), "fds"},
                Job().settings());
  CHECK(sorted_lines(result.out) == Lines{"[rank0] fds 0 1 2", "[rank1] fds 0 1 2"});
}

TEST_CASE("a failure ends the job with the culprit's exit code and a report that names it") {
  const auto result =
      Job().run({"--nproc-per-node=3"}, {"print-err", "before", "env", "RANK", "round", "0", "rank",
                                         "1", "print-err", "ValueError: bad lr", "exit", "7"});
  CHECK(result.status == 7);
  CHECK(result.err.find("culprit: rank 1 (local rank 1, pid ") != std::string::npos);
  CHECK(result.err.find("exited with code 7 after ") != std::string::npos);
  CHECK(result.err.find(": ValueError: bad lr\n") != std::string::npos);
  // They stand right above.
  CHECK(result.err.find("[rank1] ValueError: bad lr\n") != std::string::npos);
  CHECK(result.err.find("its last lines") == std::string::npos);
  CHECK(result.err.find("(not restarted: --max-restarts=0)") != std::string::npos);
}

TEST_CASE("workers that are stopped because of a failure are named as such") {
  const auto result =
      Job().run({"--nproc-per-node=2", "--grace-period=5"}, {"rank", "1", "kill", "11"});
  CHECK(result.status == 128 + 11);
  CHECK(result.err.find("culprit: rank 1") != std::string::npos);
  CHECK(result.err.find("killed by SIGSEGV (signal 11") != std::string::npos);
  const auto stopped = Job().run({"--nproc-per-node=2", "--grace-period=5", "/bin/sh", "-c",
                                  "[ $RANK = 1 ] && exit 4; exec sleep 60"},
                                 {});
  CHECK(stopped.status == 4);
  CHECK(stopped.err.find("stopped because of it: rank 0") != std::string::npos);
}

TEST_CASE("a failed worker brings back the whole group, with a new store port and a higher count") {
  const auto result = Job().run({"--nproc-per-node=2", "--max-restarts=2"},
                                {"env", "MASTER_PORT", "env", "TORCHELASTIC_RESTART_COUNT", "env",
                                 "DDPRUN_ROUND", "round", "0", "rank", "1", "kill", "9"});
  CHECK(result.status == 0);
  std::map<std::string, int> ports;
  int second_round = 0;
  for (const std::string& line : sorted_lines(result.out)) {
    if (const auto at = line.find("MASTER_PORT="); at != std::string::npos)
      ++ports[line.substr(at)];
    if (line.find("RESTART_COUNT=1") != std::string::npos) ++second_round;
  }
  CHECK(ports.size() == 2);
  CHECK(second_round == 2);
  CHECK(result.err.find("rank 1 killed by SIGKILL (signal 9) after ") != std::string::npos);
  CHECK(result.err.find("restarting the workers (1 of 2 restarts)") != std::string::npos);
}

TEST_CASE("a job without restarts left ends with the last culprit's code") {
  const auto result = Job().run({"--nproc-per-node=2", "--max-restarts=2", "--restart-delay=0"},
                                {"rank", "0", "exit", "9"});
  CHECK(result.status == 9);
  CHECK(result.err.find("2 of 2 restarts used") != std::string::npos);
}

TEST_CASE("a given master port serves every round") {
  const auto port = std::to_string(20000 + getpid() % 10000);
  const auto result = Job().run({"--max-restarts=1", "--master-port=" + port},
                                {"env", "MASTER_PORT", "round", "0", "exit", "1"});
  CHECK(result.status == 0);
  CHECK(result.out == "MASTER_PORT=" + port + "\nMASTER_PORT=" + port + "\n");
}

TEST_CASE("a port in use is reported with its remedy before the start") {
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(taken, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(listen(taken, 1) == 0);
  socklen_t size = sizeof address;
  getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size);
  const auto result =
      Job().run({"--master-port=" + std::to_string(ntohs(address.sin_port))}, {"print", "started"});
  close(taken);
  CHECK(result.status == 69);
  CHECK(result.out.empty());
  CHECK(result.err.find("choose another port, with --master-port") != std::string::npos);
  CHECK(result.err.find("pid " + std::to_string(getpid()) + " has it") != std::string::npos);
}

TEST_CASE(
    "a program that is not there, not executable or a folder is refused before anything starts") {
  const auto refuse = [](const std::string& program) {
    return test::run({test::program("ddprun"), "--no-python", program}, Job().settings());
  };
  test::TempDir directory;
  std::ofstream(directory / "plain") << "data";
  CHECK(refuse((directory / "absent").string()).status == 127);
  CHECK(refuse((directory / "plain").string()).status == 126);
  CHECK(refuse(directory.path().string()).status == 2);
  CHECK(refuse("no-such-program-anywhere").status == 127);
}

TEST_CASE("a file that the kernel cannot execute is a failure that is not tried again") {
  test::TempDir directory;
  const auto path = (directory / "broken").string();
  std::ofstream(path) << "\x7f"
                         "ELF but not really";
  chmod(path.c_str(), 0755);
  const auto result = test::run(
      {test::program("ddprun"), "--nproc-per-node=2", "--max-restarts=3", path}, Job().settings());
  CHECK(result.status == 126);
  CHECK(result.err.find("cannot execute " + path) != std::string::npos);
  CHECK(result.err.find("0 of 3 restarts used") != std::string::npos);
}

TEST_CASE("a missing interpreter of a script is named") {
  test::TempDir directory;
  const auto path = (directory / "script").string();
  std::ofstream(path) << "#!/no/such/interpreter\n";
  chmod(path.c_str(), 0755);
  const auto result = test::run({test::program("ddprun"), path}, Job().settings());
  CHECK(result.status == 126);
  CHECK(result.err.find("interpreter /no/such/interpreter does not exist") != std::string::npos);
}

TEST_CASE("stdin goes to rank 0, to all or to none") {
  CHECK(sorted_lines(Job().run({"--nproc-per-node=2"}, {"stdin", "print", "end"}, "x\n").out) ==
        Lines{"[rank0] end", "[rank0] x", "[rank1] end"});
  CHECK(sorted_lines(
            Job()
                .run({"--nproc-per-node=2", "--stdin=none"}, {"stdin", "print", "end"}, "x\n")
                .out) == Lines{"[rank0] end", "[rank1] end"});
}

TEST_CASE("breakpoint() stops rank 0 alone, and says so where the others go on") {
  if (test::run({"/usr/bin/env", "python3", "-c", ""}).status != 0) test::skip("no python3");
  Job job;
  const auto result = test::run(
      {test::program("ddprun"), "--nproc-per-node=2", "--no-python", "/usr/bin/env", "python3",
       "-c",
       "rank = __import__('os').environ['RANK']\nfor _ in '12': breakpoint()\nprint('done', rank)"},
      job.settings("p 'rank', rank, 40 + 2\nc\nc\n"));
  CHECK(result.status == 0);
  CHECK_THAT(result.out, Contains("('rank', '0', 42)") && Contains("done 0\n") &&
                             Contains("[rank1] done 1\n") && !Contains("[rank1] (Pdb)"));
  const std::string warning = "rank 1 does not stop here: it has no stdin (ddprun --stdin=all)";
  CHECK_THAT(result.err, Contains(warning));
  CHECK(result.err.find(warning) == result.err.rfind(warning));
}

TEST_CASE("lines of many workers come whole and none is lost") {
  const auto result = Job().run({"--nproc-per-node=4"}, {"flood", "500000"});
  CHECK(result.status == 0);
  std::map<std::string, int> counts;
  for (const std::string& line : sorted_lines(result.out)) ++counts[line];
  CHECK(counts.size() == 4);
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(counts["[rank" + std::to_string(rank) + "] " + std::string(99, 'x')] == 5000);
  }
}

TEST_CASE("raw output is the workers' own, without prefixes") {
  const auto result = Job().run({"--nproc-per-node=2", "--output=raw"}, {"print", "hello"});
  CHECK(sorted_lines(result.out) == Lines{"hello", "hello"});
}

TEST_CASE("processes that workers leave are gone when the job is over") {
  SECTION("after a success") {
    CHECK(Job()
              .run({"--nproc-per-node=2", "--grace-period=0.3"}, {"daemon", "print", "done"})
              .status == 0);
  }
  SECTION("after a failure") {
    CHECK(Job()
              .run({"--nproc-per-node=2", "--max-restarts=1"}, {"daemon", "rank", "1", "exit", "3"})
              .status == 3);
  }
}

namespace {

/// The answers of a job's socket to a hello and a request.
std::vector<std::string> ask_job(const std::string& name) {
  const ddprun::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  REQUIRE(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  const timeval limit{10, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const std::string request =
      proto::encode_frame(proto::encode_hello({"job", 1, 9, {}})) + proto::encode_frame("{}");
  REQUIRE(write(fd.get(), request.data(), request.size()) == static_cast<ssize_t>(request.size()));
  proto::FrameParser parser;
  std::vector<std::string> frames;
  char buffer[4096];
  for (ssize_t n = 1; frames.size() < 2 && (n = read(fd.get(), buffer, sizeof buffer)) > 0;) {
    parser.append({buffer, static_cast<std::size_t>(n)});
    while (true) {
      auto frame = parser.next();
      REQUIRE(frame.has_value());
      if (!*frame) break;
      frames.push_back(**frame);
    }
  }
  return frames;
}

/// A job that runs, and the name of its socket.
struct RunningJob {
  explicit RunningJob(std::vector<std::string> options)
      : child(
            Job::command(std::move(options), {"rank", "0", "env", "DDPRUN_SOCKET", "sleep", "60"}),
            job.settings()) {
    REQUIRE(child.wait_for_output("DDPRUN_SOCKET=@"));
    const std::size_t begin = child.out().find('@') + 1;
    name = child.out().substr(begin, child.out().find('\n', begin) - begin);
  }
  Job job;
  test::Child child;
  std::string name;
};

}  // namespace

TEST_CASE("the job socket sends its versions and the job's state") {
  RunningJob running({"--nproc-per-node=2", "--rdzv-id=socket-test"});
  CHECK(running.name.starts_with("ddprun/" + std::to_string(getuid()) + "/socket-test"));
  const auto frames = ask_job(running.name);
  REQUIRE(frames.size() == 2);
  CHECK(proto::decode_hello(frames[0])->kind == "job");
  CHECK(proto::decode_hello(frames[0])->version_max >= 1);
  CHECK(frames[1].find("\"state\":\"running\"") != std::string::npos);
  CHECK(frames[1].find("\"run_id\":\"socket-test\"") != std::string::npos);
  running.child.signal(SIGTERM);
  CHECK(running.child.wait().status == 128 + SIGTERM);
}

TEST_CASE("a run id that is no UTF-8 does no harm to a job that is asked for its state") {
  RunningJob running({"--nproc-per-node=2", "--rdzv-id=caf\xe9"});
  const auto frames = ask_job(running.name);
  REQUIRE(frames.size() == 2);
  CHECK(frames[1].find("\"run_id\":\"caf\xef\xbf\xbd\"") != std::string::npos);
  running.child.signal(SIGTERM);
  CHECK(running.child.wait().status == 128 + SIGTERM);
}

TEST_CASE("an option without effect is a warning, which --log-level=error hides") {
  const auto warned = Job().run({"--monitor-interval=1"}, {"exit", "0"});
  CHECK_THAT(warned.err, StartsWith("ddprun: warning: --monitor-interval=1 has no effect here: "));
  CHECK(Job().run({"--monitor-interval=1", "--log-level=error"}, {"exit", "0"}).err.empty());
}

TEST_CASE("a transition that only time brings about is logged like the others") {
  const auto result =
      Job().run({"--max-restarts=2", "--restart-delay=0.1", "--log-level=info"}, {"exit", "9"});
  CHECK_THAT(result.err, Contains("event=deadline"));
}

TEST_CASE(
    "a worker that dies at once is restarted at once and then after a wait that is announced") {
  const auto result = Job().run({"--max-restarts=2"}, {"exit", "9"});
  CHECK(result.status == 9);
  CHECK_THAT(result.err, Contains("; restarting the workers (1 of 2 restarts)\n"));
  // A second, or up to a quarter less.
  CHECK_THAT(result.err, Matches("(.|\n)*; restarting the workers in (1.0 s|[0-9]{3} ms) "
                                 "\\(2 of 2 restarts\\)\n(.|\n)*"));
  CHECK_THAT(result.err, !Contains("restarting the workers (2 of 2"));
}

TEST_CASE("a signal ends the wait for a restart") {
  Job job;
  test::Child child(Job::command({"--max-restarts=9", "--restart-delay=1h"}, {"exit", "9"}),
                    job.settings());
  REQUIRE(child.wait_for([](const std::string&, const std::string& err) {
    return err.find("restarting the workers in ") != std::string::npos;
  }));
  kill(child.pid(), SIGINT);
  CHECK(child.wait().status == 130);
}

TEST_CASE("a launcher above ddprun gets the culprit's error file") {
  const test::TempDir folder;
  Job job;
  const std::string script =
      "echo '{\"message\": {\"message\": \"Error: bad lr\"}}' > $TORCHELASTIC_ERROR_FILE; exit 5";
  const auto run = [&](const std::string& path) {
    auto settings = job.settings();
    settings.environment.emplace_back("TORCHELASTIC_ERROR_FILE", path);
    return test::run({test::program("ddprun"), "--nproc-per-node=2", "/bin/sh", "-c", script},
                     settings);
  };
  const std::string path = (folder / "error.json").string();
  CHECK(run(path).status == 5);
  std::ifstream stream(path);
  std::string copy;
  std::getline(stream, copy);
  CHECK(copy == R"({"message":{"message":"Error: bad lr","errorCode":5}})");
  const auto lost = run("/no/such/folder/error.json");
  CHECK(lost.status == 5);
  CHECK_THAT(lost.err,
             Contains("ddprun: warning: TORCHELASTIC_ERROR_FILE=/no/such/folder/error.json: "));
}
