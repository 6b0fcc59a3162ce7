// Texts and messages that all programs have alike.
#include <catch2/catch.hpp>
#include <string>

#include "tests/support/job.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

/// What a shell line gives in which $D is ddprun, $T the trainer and $R the daemon.
test::ChildResult shell(const std::string& line) {
  test::Job job;
  auto settings = job.settings();
  settings.environment.emplace_back("D", test::program("ddprun"));
  settings.environment.emplace_back("T", test::program("train"));
  settings.environment.emplace_back("R", test::program("rdzvd"));
  return test::run({"/bin/sh", "-c", line}, settings);
}

}  // namespace

TEST_CASE("the word behind --help is a topic, if it is one, in every program") {
  for (const std::string program : {"$D --help exit", "$D -h exit", "$T --help exit"}) {
    const auto topic = shell("exec " + program);
    CHECK(topic.status == 0);
    CHECK_THAT(topic.out, StartsWith("Exit status\n"));
  }
  CHECK(shell("exec $D --help script.py").out == shell("exec $D --help").out);
  CHECK(shell("exec $D -h script.py").out == shell("exec $D -h").out);
  for (const std::string help : {"exec $D --help", "exec $D -h"}) {
    CHECK(shell(help + " train --epochs=3").out ==
          shell(help).out + "\ntrain is a program: ddprun train --help shows its options.\n");
  }
  CHECK(shell("exec $T --help nonsense").out == shell("exec $T --help").out);
}

TEST_CASE("a current folder that has been deleted is named by ddprun and by train") {
  const std::string inside = "mkdir $TMPDIR/gone && cd $TMPDIR/gone && rmdir $TMPDIR/gone; ";
  const auto script = shell(inside + "exec $D ok.py");
  CHECK(script.status == 127);
  CHECK_THAT(script.err, Contains("the current folder has been deleted: cd to another one"));
  const auto train = shell(inside + "exec $T --checkpoint-every=off --epochs=1");
  CHECK(train.status == 2);
  CHECK_THAT(train.err, EndsWith("the current folder has been deleted: cd to another one\n"));
}

TEST_CASE("a text that cannot be written is an error, and a closed stdout is named as such") {
  const std::string texts[] = {"$D --help",           "$D -h",     "$D --version", "$D --man",
                               "$D --dry-run true",   "$T --help", "$T --version", "$R --help",
                               "$R --completion=bash"};
  for (const std::string& text : texts) {
    CAPTURE(text);
    const auto full = shell("exec " + text + " > /dev/full");
    CHECK(full.status == 1);
    CHECK_THAT(full.err, Contains("cannot write to stdout: No space left on device"));
    const auto closed = shell("exec " + text + " >&-");
    CHECK(closed.status == 1);
    CHECK_THAT(closed.err, Contains("cannot write to stdout: Bad file descriptor"));
  }
}

TEST_CASE("a text ends quietly where its reader has gone") {
  const auto without_reader = [](const std::string& before, const std::string& line) {
    // The shell itself may have been started with an ignored SIGPIPE, and cannot change that.
    return shell("mkfifo $TMPDIR/gone; { read -r x < $TMPDIR/gone; " + before + line +
                 "; echo $? >&2; } | { exec <&-; echo > $TMPDIR/gone; }");
  };
  for (const char* text : {"$D --help", "$D --dry-run true", "$T --help", "$R --help"}) {
    CAPTURE(text);
    // By SIGPIPE, as other programs; or with 0 where that is ignored, by train always.
    const std::string err = without_reader("env --default-signal=PIPE ", text).err;
    CHECK((err == "141\n" || err == "0\n"));
    CHECK(without_reader("env --ignore-signal=PIPE ", text).err == "0\n");
  }
  CHECK(without_reader("", "$D --nproc-per-node=2 $T --help").err == "0\n");
}

TEST_CASE("a job runs although its stdout is closed, and nothing it opens takes that place") {
  const auto job = shell("exec $D --nproc-per-node=2 /bin/echo hello >&-");
  CHECK(job.status == 0);
  CHECK(job.err.empty());
  const auto train = shell(
      "$T --max-steps=2 --checkpoint-every=1 --out=$TMPDIR/out >&- && "
      "exec $T --max-steps=3 --out=$TMPDIR/out --resume=strict");
  CHECK(train.status == 0);
}
