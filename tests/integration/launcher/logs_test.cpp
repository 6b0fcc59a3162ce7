// Where workers' output goes with --log-dir, --redirects, --tee and their filters.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "tests/integration/launcher/logs.hpp"
#include "tests/support/job.hpp"

using namespace ddprun;
using Lines = std::vector<std::string>;
using Catch::Matchers::Contains;
using test::Job;
using test::Logs;
using test::sorted_lines;

TEST_CASE("redirected streams are in files by restart and local rank and not here") {
  const Logs logs;
  const auto result =
      Job().run({logs.option(), "--nproc-per-node=2", "--redirects=0:3,1:2", "--max-restarts=1"},
                {"print", "out", "print-err", "err", "round", "0", "rank", "0", "exit", "1"});
  CHECK(result.status == 0);
  CHECK(logs.text("attempt_0/0/stdout.log") == "out\n");
  CHECK(logs.text("attempt_0/0/stderr.log") == "err\n");
  CHECK(logs.text("attempt_1/0/stdout.log") == "out\n");
  CHECK(logs.text("attempt_1/1/stderr.log") == "err\n");
  CHECK_FALSE(logs.has("attempt_1/1/stdout.log"));
  CHECK(sorted_lines(result.out).back() == "[rank1] out");
  CHECK(result.out.find("[rank0]") == std::string::npos);
  CHECK(result.err.find("err") == result.err.npos);
}

TEST_CASE("teed streams are here with a prefix and whole in their files") {
  const Logs logs;
  const auto result = Job().run({logs.option(), "--nproc-per-node=2", "--tee=3"},
                                {"print", "out", "print-err", "err"});
  CHECK(result.status == 0);
  CHECK(sorted_lines(result.out) == Lines{"[rank0] out", "[rank1] out"});
  CHECK(sorted_lines(result.err) == Lines{"[rank0] err", "[rank1] err"});
  CHECK(logs.text("attempt_0/1/stdout.log") == "out\n");
  CHECK(logs.text("attempt_0/0/stderr.log") == "err\n");
}

TEST_CASE("the same line of several workers is shown once, and the order of each one's stays") {
  const Logs logs;
  const auto result = Job().run(
      {logs.option(), "--nproc-per-node=3", "--fold=always", "--tee=1", "/bin/sh", "-c",
       "i=0; while [ $i -lt 50 ]; do echo all; echo I am $RANK; sleep 0.02; i=$((i+1)); done;"
       " printf 'no newline'"},
      {});
  CHECK(result.status == 0);
  std::map<std::string, std::string> shown;
  int folded = 0;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    const auto end = line.find("] ");
    REQUIRE(line.starts_with("[rank"));
    const std::string ranks = line.substr(5, end - 5);
    folded += ranks.size() > 1 ? 1 : 0;
    for (const std::string rank : {"0", "1", "2"}) {
      if (ranks == "0-2" || ranks.find(rank) != std::string::npos)
        shown[rank] += line.substr(end + 2) + "\n";
    }
  }
  CHECK(folded > 0);
  for (const std::string rank : {"0", "1", "2"}) {
    const std::string file = logs.text("attempt_0/" + rank + "/stdout.log");
    CHECK(file.ends_with("I am " + rank + "\nno newline"));
    CHECK(shown[rank] == file + "\n");
  }
}

TEST_CASE("under the name torchrun teed lines have its prefix, and others ours") {
  const test::TempDir folder;
  const std::string torchrun = (folder / "torchrun").string();
  std::filesystem::create_symlink(test::program("ddprun"), torchrun);
  const std::string logs = "--log-dir=" + (folder / "logs").string();
  const auto shown = [&](const std::string& tee) {
    return sorted_lines(test::run({torchrun, "--nproc-per-node=2", "--role=trainer", logs, tee,
                                   test::helper("job_worker"), "print", "out"},
                                  Job().settings())
                            .out);
  };
  CHECK(shown("--tee=3") == Lines{"[trainer0]:out", "[trainer1]:out"});
  CHECK(shown("--tee=0") == Lines{"[rank0] out", "[rank1] out"});
}

TEST_CASE("the filter keeps ranks from the console and not from their files") {
  const Logs logs;
  const auto result =
      Job().run({logs.option(), "--nproc-per-node=3", "--tee=0:1,1:1", "--local-ranks-filter=0"},
                {"print", "out"});
  CHECK(result.out == "[rank0] out\n");
  CHECK(logs.text("attempt_0/1/stdout.log") == "out\n");
}

TEST_CASE("lines that a duplicate filter finds are gathered with their prefix") {
  const Logs logs;
  Job().run({logs.option(), "--nproc-per-node=2", "--tee=3", "--duplicate-stdout-filters=loss,,x"},
            {"print", "the loss,x is 1", "print", "loss", "print-err", "loss,x"});
  CHECK(sorted_lines(logs.text("attempt_0/filtered_stdout.log")) ==
        Lines{"[rank0] the loss,x is 1", "[rank1] the loss,x is 1"});
  CHECK_FALSE(logs.has("attempt_0/filtered_stderr.log"));
}

TEST_CASE("megabytes of teed lines reach their file whole and in order") {
  const Logs logs;
  const auto result = Job().run({logs.option(), "--tee=1"}, {"flood", "3000000"});
  CHECK(result.status == 0);
  const std::string text = logs.text("attempt_0/0/stdout.log");
  CHECK(text.size() == 3'000'000);
  CHECK(text.back() == '\n');
  CHECK(text.find("\n\n") == std::string::npos);
}

TEST_CASE("the culprit's last lines come from its file when its stderr went there") {
  const Logs logs;
  const auto result =
      Job().run({logs.option(), "--nproc-per-node=2", "--redirects=3"},
                {"rank", "1", "print-err", "first", "print-err", "last words", "exit", "3"});
  CHECK(result.status == 3);
  CHECK(result.err.find("    first\n    last words\n") != std::string::npos);
}

TEST_CASE("error files are in the log folder where there is one") {
  const Logs logs;
  const auto result = Job().run({logs.option()}, {"env", "TORCHELASTIC_ERROR_FILE"});
  CHECK(result.out.find(logs.folder().path().string()) != std::string::npos);
  CHECK(result.out.find("/attempt_0/0/error.json\n") != std::string::npos);
}

TEST_CASE("every run has a folder of its own and latest links to the newest") {
  const Logs logs;
  for (const char* word : {"one", "two"})
    Job().run({logs.option(), "--rdzv-id=a/b", "--redirects=1"}, {"print", word});
  CHECK(logs.text("attempt_0/0/stdout.log") == "two\n");
  int folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(logs.folder().path())) {
    const std::string name = entry.path().filename();
    if (name.starts_with("20") && name.find("_a_b") != std::string::npos) ++folders;
  }
  CHECK(folders == 2);
}

TEST_CASE("without a log folder files go to a new one that is printed and stays") {
  test::TempDir base;
  test::ChildOptions settings;
  settings.environment = {{"TMPDIR", base.path().string()}};
  const auto result = test::run(Job::command({"--redirects=1"}, {"print", "kept"}), settings);
  CHECK(result.status == 0);
  REQUIRE(result.err.find("ddprun: logs are in " + base.path().string()) == 0);
  const auto end = result.err.find(" (see --log-dir)");
  const std::string folder = result.err.substr(20, end - 20);
  std::ifstream file(folder + "/attempt_0/0/stdout.log");
  std::string line;
  CHECK(std::getline(file, line));
  CHECK(line == "kept");
}

TEST_CASE("the report of a failure names the culprit's log file, if it is not empty") {
  const Logs logs;
  const std::string begin = "ddprun: its log: " + logs.folder().path().string();
  const auto run = [&](const std::string& redirects, const std::string& script) {
    return test::run({test::program("ddprun"), logs.option(), redirects, "--nproc-per-node=2",
                      "/bin/sh", "-c", "test $RANK = 1 || exec sleep 60; " + script},
                     Job().settings())
        .err;
  };
  CHECK_THAT(run("--redirects=3", "echo out; echo bad >&2; exit 5"),
             Contains(begin) && Contains("/attempt_0/1/stderr.log\n"));
  CHECK_THAT(run("--redirects=3", "echo out; exit 5"),
             Contains(begin) && Contains("/attempt_0/1/stdout.log\n"));
  CHECK_THAT(run("--redirects=2", "exit 5"), !Contains("its log"));
}

TEST_CASE("a log folder that cannot be made is refused before anything starts") {
  test::TempDir base;
  std::ofstream(base / "file") << "x";
  for (const std::string folder : {"/proc/ddprun", "/dev/null/x"}) {
    const auto result = Job().run({"--log-dir=" + folder, "--redirects=1"}, {"print", "started"});
    CHECK(result.status == 2);
    CHECK(result.out.empty());
    CHECK(result.err.find("--log-dir: cannot make a folder in " + folder) != std::string::npos);
  }
  const auto result = Job().run({"--log-dir=" + (base / "file").string()}, {"print", "started"});
  CHECK(result.status == 2);
}

TEST_CASE("a file that cannot be opened causes a warning and its worker gets ddprun's own output") {
  const Logs logs;
  // A line of a shell: the folder of the next attempt is in the way as a file.
  const auto result = test::run(
      {test::program("ddprun"), logs.option(), "--redirects=1", "--max-restarts=1", "/bin/sh", "-c",
       "[ $DDPRUN_ROUND = 1 ] && echo visible && exit 0; echo x > $(dirname $(dirname $(dirname "
       "$TORCHELASTIC_ERROR_FILE)))/attempt_1; exit 1"},
      Job().settings());
  CHECK(result.status == 0);
  CHECK(result.out == "visible\n");
  CHECK(result.err.find("attempt_1/0/stdout.log") != std::string::npos);
}

TEST_CASE("a filter finds lines that only time makes final, and they stay its own") {
  const Logs logs;
  const auto result = Job().run(
      {logs.option(), "--nproc-per-node=2", "--tee=3", "--duplicate-stdout-filters=needle"},
      {"print", "\x1b[?25lneedle here", "sleep", "3", "print-err", "needle"});
  CHECK(result.status == 0);
  CHECK(sorted_lines(logs.text("attempt_0/filtered_stdout.log")) ==
        Lines{"[rank0] needle here", "[rank1] needle here"});
}

TEST_CASE("only the ranks of the filter are shown, and the verdict sees all of them") {
  const auto result =
      Job().run({"--nproc-per-node=4", "--rank-filter=0,2-3", "--local-ranks-filter=1,2"},
                {"print", "out", "print-err", "err", "rank", "1", "sleep", "0.2", "print-err",
                 "ValueError: last words", "exit", "3"});
  CHECK(result.status == 3);
  CHECK(result.out == "[rank2] out\n");
  CHECK(result.err.find("[rank2] err\n") != std::string::npos);
  CHECK(result.err.find("[rank1]") == std::string::npos);
  CHECK(result.err.find("culprit: rank 1") != std::string::npos);
  CHECK(result.err.find("    ValueError: last words\n") != std::string::npos);
}

TEST_CASE("files get what the rank filter hides") {
  const Logs logs;
  const auto result = Job().run({logs.option(), "--nproc-per-node=2", "--tee=1", "--rank-filter=1"},
                                {"print", "out"});
  CHECK(result.out == "[rank1] out\n");
  CHECK(logs.text("attempt_0/0/stdout.log") == "out\n");
}

TEST_CASE("a prefix may have the time and a colour, and a mistake in it is refused") {
  const std::string text = "--log-line-prefix-template=${time} ${role}${rank}|";
  auto result = Job().run({"--output=pipe", text}, {"print", "out"});
  REQUIRE(result.out.size() == std::string("12:34:56.789 default0|out\n").size());
  CHECK(result.out.substr(12) == " default0|out\n");
  CHECK(result.out[2] == ':');
  CHECK(result.out[8] == '.');
  result = Job().run({"--output=pipe", "--color=always"}, {"print", "out"});
  CHECK(result.out == "\x1b[36m[rank0] \x1b[0mout\n");
  result = Job().run({"--log-line-prefix-template=${node}"}, {"print", "started"});
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(result.err.find("${node} is not known; expected rank, local_rank") != std::string::npos);
}

TEST_CASE("a wrong size, number of parts or rank is refused") {
  for (const std::string option :
       {"--log-max-size=0", "--log-max-size=5X", "--log-max-size=9999999999G", "--rank-filter=2-1",
        "--rank-filter=x", "--log-keep=-1", "--log-policy=wait", "--color=red"}) {
    const auto result = Job().run({option}, {"print", "started"});
    CHECK(result.status == 2);
    CHECK(result.err.find(option) != std::string::npos);
  }
}

TEST_CASE("files with a size cap continue in new parts that begin with whole lines") {
  for (const std::string option : {"--redirects=3", "--tee=3"}) {
    const Logs logs;
    const auto result = Job().run(
        {logs.option(), "--nproc-per-node=2", option, "--log-max-size=4K", "--log-keep=100"},
        {"numbered", "100000", "rank", "1", "print-err", "one", "print-err", "last words", "exit",
         "3"});
    CHECK(result.status == 3);
    // The report has them where they are in a file alone.
    const bool in_report = option == "--redirects=3";
    CHECK((result.err.find("    one\n    last words\n") != std::string::npos) == in_report);
    std::string all;
    for (int part = 24; part >= 0; --part) {
      const std::string text = logs.text("attempt_0/1/stdout.log" +
                                         (part > 0 ? "." + std::to_string(part) : std::string()));
      CHECK(text.size() < 4096 + 100);  // the rest of a line stays with its beginning
      CHECK(text.ends_with('\n'));
      all += text;
    }
    REQUIRE(all.size() == 100'000);
    CHECK(all.starts_with("1 00000000 x"));
    CHECK(all.substr(99'900).starts_with("1 00000999 x"));
  }
}

TEST_CASE("of older parts the newest stay") {
  const Logs logs;
  Job().run({logs.option(), "--redirects=1", "--log-max-size=1K"}, {"numbered", "10000"});
  CHECK(logs.text("attempt_0/0/stdout.log").size() == 1000);
  CHECK(logs.text("attempt_0/0/stdout.log.1").substr(0, 10) == "0 00000080");
  CHECK_FALSE(logs.has("attempt_0/0/stdout.log.2"));
}

TEST_CASE("a worker may close its stdout and go on") {
  const Logs logs;
  const auto result =
      Job().run({logs.option(), "--nproc-per-node=2", "--tee=3"},
                {"print", "before", "close", "1", "sleep", "0.1", "print-err", "after"});
  CHECK(result.status == 0);
  CHECK(logs.text("attempt_0/1/stdout.log") == "before\n");
  CHECK(logs.text("attempt_0/1/stderr.log") == "after\n");
}

TEST_CASE("stdout and stderr of a worker keep their order where both go to the same place") {
  Job job;
  const auto result = test::run(
      {"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh", test::program("ddprun"), "--nproc-per-node=2",
       "/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done"},
      job.settings());
  REQUIRE(result.status == 0);
  for (const std::string rank : {"[rank0] ", "[rank1] "}) {
    std::string expected;
    for (int i = 1; i <= 9; ++i) {
      for (const char* stream : {"out ", "err "})
        expected += rank + stream + std::to_string(i) + "\n";
    }
    std::string actual;
    for (std::string_view rest = result.out; !rest.empty();
         rest.remove_prefix(rest.find('\n') + 1)) {
      if (rest.starts_with(rank)) actual += rest.substr(0, rest.find('\n') + 1);
    }
    CHECK(actual == expected);
  }
}

TEST_CASE("a bar that moves shows in a file before it ends") {
  Job job;
  const auto result = test::run(
      {test::program("ddprun"), "--nproc-per-node=2", "--bar-interval=0.1", "/bin/sh", "-c",
       "for i in 1 2 3 4 5 6 7 8; do printf '\\rstep %d' $i; sleep 0.1; done; echo"},
      job.settings());
  REQUIRE(result.status == 0);
  for (const std::string rank : {"[rank0] ", "[rank1] "}) {
    CHECK(result.out.find(rank + "step 8\n") != std::string::npos);
    std::size_t lines = 0;
    for (auto at = result.out.find(rank); at != std::string::npos;
         at = result.out.find(rank, at + 1))
      ++lines;
    CHECK(lines > 1);
    CHECK(lines <= 9);
  }
}

TEST_CASE("lines of any length and any bytes pass through whole") {
  const Logs logs;
  const auto result = Job().run({logs.option(), "--nproc-per-node=2", "--tee=1"},
                                {"odd", "long", "1000000", "print", "end"});
  const std::string odd("a\0b\xff\xc3(\x01\xed\xa0\x80\n", 11);
  const std::string text = odd + std::string(1'000'000, 'y') + "\nend\n";
  CHECK(logs.text("attempt_0/0/stdout.log") == text);
  CHECK(logs.text("attempt_0/1/stdout.log") == text);
  const std::string prefix = "[rank1] ";
  const std::string line = prefix + std::string(1'000'000, 'y') + "\n";
  CHECK(result.out.find(prefix + odd) != std::string::npos);
  CHECK(result.out.find(prefix + "end\n") != std::string::npos);
  // Another worker's line may stand between the pieces of so long a line; no byte is lost.
  CHECK(static_cast<std::size_t>(std::count(result.out.begin(), result.out.end(), 'y')) ==
        2'000'000);
}
